// Faults of servers that clean: the nemesis waits for a step of cleaning, and strikes there.

#include "sim/cluster/nemesis.h"

namespace ramcore::sim {
namespace {

constexpr int64_t kAwaitNs = 3 * runtime::kNanosPerSecond;
constexpr int64_t kReadNsMin = 1 * runtime::kNanosPerMilli;
constexpr int64_t kReadNsMax = 30 * runtime::kNanosPerMilli;

}  // namespace

// A random step: those that take long would come much oftener than the others if servers just died at some moment.
// Compactions are far rarer than passes: one of their few steps is awaited beside each step of a pass.
void Nemesis::awaitCleaning() {
  if (dies_at_) return;
  const auto in_pass = static_cast<CleaningStep>(random_.below(kPassStepCount));
  const auto in_compaction =
      static_cast<CleaningStep>(kPassStepCount + random_.below(kCleaningStepCount - kPassStepCount));
  dies_at_ = Awaited{.steps = {in_pass, in_compaction}, .until_ns = cluster_.scheduler.nowNs() + kAwaitNs};
}

void Nemesis::awaitToRead() {
  if (reads_at_) return;
  reads_at_ = Awaited{.steps = {CleaningStep::SurvivorsOpen, CleaningStep::Compacting},
                      .until_ns = cluster_.scheduler.nowNs() + kAwaitNs};
}

// One server after each event, in turns: to look at all of them would take as long as all else.
void Nemesis::watchCleaning() {
  looked_at_ = (looked_at_ + 1) % cluster_.servers.size();
  const size_t index = looked_at_;
  const log::Log* const log = cluster_.isDown(index) ? nullptr : cluster_.servers[index]->master().log();
  if (dies_at_ && isOver(*dies_at_)) dies_at_.reset();
  if (reads_at_ && isOver(*reads_at_)) reads_at_.reset();
  if (log == nullptr) return;
  if (reads_at_ && stepAmong(*log, reads_at_->steps)) {
    reads_at_.reset();
    beginSlowRead(index);
  }
  if (!dies_at_) return;
  if (const std::optional<CleaningStep> step = stepAmong(*log, dies_at_->steps)) {
    dies_at_.reset();
    dieCleaning(index, *step);
  }
}

// As for every other death: see step().
bool Nemesis::mayDieNow(size_t index) const { return !spared_ && !alone_ && !isCrowded() && !cluster_.isDown(index); }

// Its process, or its machine loses its power where that may be. What the disks hold is judged before and after.
void Nemesis::dieCleaning(size_t index, CleaningStep step) {
  if (!mayDieNow(index)) return;
  ++counts_.cleaning_crashes[static_cast<size_t>(step)];
  const std::string at(name(step));
  if (options_.judge) options_.judge(("before a server dies that cleans, " + at).c_str());
  const bool loses_power = options_.faults && random_.below(2) == 0 && power_watch_.mayLose(index);
  if (loses_power) {
    ++counts_.power_losses;
    losePower(index);
  } else {
    kill(index);
  }
  if (options_.judge) options_.judge(("after a server died that cleaned, " + at).c_str());
}

// A thread that has just looked up what will be moved.
void Nemesis::beginSlowRead(size_t index) {
  SimServer& server = *cluster_.servers[index];
  if (!server.slowReader().begin(server.master(), random_)) return;
  ++counts_.slow_reads;
  const bool pins = random_.below(2) == 0;
  laterReading(server, index, [this, &server, index, pins] {
    if (!pins) return endSlowRead(server);
    ++counts_.slow_pins;
    server.slowReader().pin(server.master());
    laterReading(server, index, [this, &server] { endSlowRead(server); });
  });
}

// A process that died takes its threads along.
void Nemesis::laterReading(SimServer& server, size_t index, std::function<void()> action) {
  const auto ns = static_cast<int64_t>(random_.between(kReadNsMin, kReadNsMax));
  later(cluster_.scheduler.nowNs() + ns, [this, index, &server, action = std::move(action)] {
    if (cluster_.servers[index].get() == &server && server.slowReader().isReading()) action();
  });
}

void Nemesis::endSlowRead(SimServer& server) {
  const std::string wrong = server.slowReader().end(server.master());
  if (!wrong.empty()) failures_.push_back(wrong);
}

}  // namespace ramcore::sim
