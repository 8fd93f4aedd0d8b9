#include "tools/rcnic/laboratory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "tools/rcnic/analysis/dataset.h"
#include "tools/rcnic/probes/processors.h"
#include "tools/rcnic/probes/tsc.h"

namespace ramcore::rcnic {
namespace {

// At most this many lists of pieces are made before a round, and used in turn.
constexpr uint32_t kListsMax = 256;
constexpr uint32_t kPiecesListedMax = 4096;
constexpr int64_t kStandstillNs = 20 * runtime::kNanosPerSecond;
constexpr uint32_t kWarmUpShare = 4;

// Time that the host gave to others, since boot and over all processors.
uint64_t stealMs() {
  std::ifstream stat("/proc/stat");
  std::string name;
  stat >> name;
  uint64_t value = 0;
  for (int field = 0; field < 8 && stat >> value; ++field) {
  }
  return stat ? value * 1000 / static_cast<uint64_t>(::sysconf(_SC_CLK_TCK)) : 0;
}

double measureCyclesPerMs(runtime::Clock& clock) {
  const int64_t begin_ns = clock.nowNs();
  const uint64_t begin = tscNow();
  while (clock.nowNs() - begin_ns < 20 * runtime::kNanosPerMilli) {
  }
  const uint64_t cycles = tscNow() - begin;
  return static_cast<double>(cycles) * 1e6 / static_cast<double>(clock.nowNs() - begin_ns);
}

}  // namespace

Laboratory::Laboratory(std::unique_ptr<Probe> probe, const LaboratorySettings& settings, Tell tell)
    : probe_(std::move(probe)),
      settings_(settings),
      tell_(std::move(tell)),
      cycles_per_ms_(measureCyclesPerMs(clock_)) {
  pinSender();
}

Abilities Laboratory::abilities() const {
  const ProbeTraits& traits = probe_->traits();
  return {.operations = traits.operations,
          .pieces_max = traits.pieces_max,
          .inline_bytes_max = traits.inline_bytes_max,
          .message_bytes_max = traits.message_bytes_max,
          .has_selective_signals = traits.has_selective_signals};
}

Outcome<std::vector<Sample>> Laboratory::measure(const std::string& experiment, const std::vector<Shape>& shapes) {
  for (uint32_t attempt = 1;; ++attempt) {
    auto samples = measureOnce(experiment, shapes);
    if (!samples.ok() || shapes.empty() || settings_.attempts_max == 0) return samples;
    // The first shape stands for the machine: its rounds are spread over the whole experiment.
    const Dataset measured(probe_->traits().subject, *samples);
    const Rounds* const first = measured.find(experiment, shapes.front());
    const double spread = first == nullptr ? 1 : Dataset::spread(*first);
    if (spread <= kSpreadMax) return samples;
    char text[160];
    std::snprintf(text, sizeof text, "%s: rounds of the same shape differ by %.1fx%s", experiment.c_str(), spread,
                  attempt < settings_.attempts_max ? "; measuring again" : "; noisy, and kept all the same");
    tell_(text);
    if (attempt < settings_.attempts_max) continue;
    was_noisy_ = true;
    return samples;
  }
}

Outcome<std::vector<Sample>> Laboratory::measureOnce(const std::string& experiment, const std::vector<Shape>& shapes) {
  std::vector<Sample> samples;
  // Round 0 warms up and is not kept.
  for (uint32_t number = 0; number <= settings_.rounds; ++number) {
    const uint32_t milliseconds = number == 0 ? std::max(1U, settings_.round_ms / kWarmUpShare) : settings_.round_ms;
    for (const Shape& shape : shapes) {
      auto used = use(shape.page_kb);
      if (!used.ok()) return std::move(used).error();
      auto round = runRound(shape, number, milliseconds);
      if (!round.ok()) return std::move(round).error();
      if (number != 0) samples.push_back({experiment, probe_->traits().subject, shape, *round});
    }
  }
  return samples;
}

Outcome<RecordMemory*> Laboratory::memoryOf(uint32_t page_kb) {
  const auto found = memories_.find(page_kb);
  if (found != memories_.end()) return &found->second;
  auto opened = RecordMemory::open(settings_.memory_bytes, page_kb);
  if (!opened.ok()) return std::move(opened).error();
  RecordMemory* const memory = &memories_.emplace(page_kb, std::move(opened).value()).first->second;
  if (page_kb > 4 && memory->hugePercent() < 100) {
    tell_("only " + std::to_string(memory->hugePercent()) +
          " % of the memory that was to be in pages of 2 MB is in such pages; free some (vm.compact_memory), or allow "
          "them (/sys/kernel/mm/transparent_hugepage/enabled)");
  }
  return memory;
}

Outcome<bool> Laboratory::use(uint32_t page_kb) {
  if (page_kb == page_kb_) return true;
  auto memory = memoryOf(page_kb);
  if (!memory.ok()) return std::move(memory).error();
  auto used = probe_->useMemory((*memory)->bytes());
  if (used.ok()) page_kb_ = page_kb;
  return used;
}

Outcome<Round> Laboratory::runRound(const Shape& shape, uint32_t number, uint32_t milliseconds) {
  const uint32_t pieces_each = std::max(1U, shape.pieces());
  const uint32_t lists = std::clamp(kPiecesListedMax / pieces_each, 1U, kListsMax);
  const std::vector<Piece> pieces = memories_.at(shape.page_kb).choosePieces(shape, lists, number + 1);
  const auto duration = static_cast<uint64_t>(cycles_per_ms_ * milliseconds);
  const uint64_t copied_before = probe_->copyCycles();
  const uint64_t steal_before = stealMs();
  Round round{.number = number};
  Transmission transmission{.operation = shape.operation, .mode = shape.mode, .pieces = {}};

  const int64_t begin_ns = clock_.nowNs();
  const uint64_t begin = tscNow();
  int64_t still_since_ns = 0;
  for (bool is_last = false; !is_last;) {
    const uint64_t now = tscNow();
    is_last = now - begin >= duration;
    transmission.pieces = std::span(pieces).subspan(round.messages % lists * shape.pieces(), shape.pieces());
    transmission.is_signalled = is_last || (round.messages + 1) % shape.signal_every == 0;
    auto posted = probe_->post(transmission);
    if (!posted.ok()) return std::move(posted).error();
    if (*posted) {
      round.work_cycles += tscNow() - now;
      ++round.messages;
      continue;
    }
    is_last = false;  // the last one has to be posted, too
    auto taken = takeCompletions(round, still_since_ns);
    if (!taken.ok()) return std::move(taken).error();
  }
  while (probe_->outstanding() != 0) {
    auto taken = takeCompletions(round, still_since_ns);
    if (!taken.ok()) return std::move(taken).error();
  }
  round.elapsed_cycles = tscNow() - begin;
  round.elapsed_ns = static_cast<uint64_t>(clock_.nowNs() - begin_ns);
  round.copy_cycles = probe_->copyCycles() - copied_before;
  round.steal_ms = stealMs() - steal_before;
  return round;
}

// Looks once for completions. If it finds any, the time counts as work, else as waiting.
Outcome<bool> Laboratory::takeCompletions(Round& round, int64_t& still_since_ns) {
  const uint64_t look = tscNow();
  auto done = probe_->reap();
  if (!done.ok()) return std::move(done).error();
  if (*done != 0) {
    round.work_cycles += tscNow() - look;
    still_since_ns = 0;
    return true;
  }
  const int64_t now_ns = clock_.nowNs();
  if (still_since_ns == 0) still_since_ns = now_ns;
  if (now_ns - still_since_ns <= kStandstillNs) return true;
  return Failure{Status::IoError, probe_->traits().subject.name() + ": nothing has been completed for " +
                                      std::to_string(kStandstillNs / runtime::kNanosPerSecond) +
                                      " s; is the network between the devices up?"};
}

}  // namespace ramcore::rcnic
