#include "backup/scrubber.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace ramcore::backup {
namespace {

// A master that could not be told is told again after this.
constexpr int64_t kTellAgainNs = 5 * runtime::kNanosPerSecond;

}  // namespace

Scrubber::Scrubber(const Parts& parts, const ScrubOptions& options)
    : parts_(parts), options_(options), stopping_(parts.executor) {}

Scrubber::~Scrubber() { RC_CHECK_MSG(stopped(), "the scrubber was destroyed before it had stopped"); }

void Scrubber::start() {
  if (options_.bytes_per_second == 0 || stop_) return;
  running_ = true;
  run().detach();
}

void Scrubber::stop() {
  stop_ = true;
  stopping_.notifyAll();
}

runtime::Task<void> Scrubber::run() {
  while (!stop_) {
    const int64_t next_ns = nowNs() + options_.pass_ns;
    co_await pass();
    // The memory is not kept until the next pass.
    bytes_ = {};
    co_await waitUntil(next_ns);
  }
  running_ = false;
}

runtime::Task<void> Scrubber::pass() {
  uint32_t from = 0;
  while (!stop_) {
    const std::optional<ReplicaChecker::Settled> settled = parts_.checker.nextSettled(from);
    if (!settled) co_return;
    from = settled->frame + 1;
    const int64_t began_ns = nowNs();
    const Status status = co_await parts_.checker.checkAgain(*settled, parts_.reader, bytes_);
    if (stop_) co_return;
    if (status == Status::Corrupt || status == Status::IoError) noteLost(settled->certificate, settled->frame, status);
    const auto bytes = static_cast<double>(settled->certificate.length_bytes);
    const double pause_ns = bytes / static_cast<double>(options_.bytes_per_second) * runtime::kNanosPerSecond;
    co_await waitUntil(began_ns + static_cast<int64_t>(pause_ns));
  }
}

// Waits, and tells masters of lost replicas meanwhile.
runtime::Task<void> Scrubber::waitUntil(int64_t until_ns) {
  while (!stop_) {
    if (!untold_.empty() && nowNs() >= tell_at_ns_) {
      co_await tellMasters();
      continue;
    }
    if (nowNs() >= until_ns) co_return;
    const int64_t wake_ns = untold_.empty() ? until_ns : std::min(until_ns, tell_at_ns_);
    [[maybe_unused]] const Status woken = co_await stopping_.wait(wake_ns);
  }
}

void Scrubber::noteLost(const log::Certificate& certificate, uint32_t frame, Status why) {
  parts_.trace.error("backup: the replica of segment " + std::to_string(certificate.segment.value) + " of server " +
                     std::to_string(certificate.master.value) + " in frame " + std::to_string(frame) +
                     " is not what it was (" + std::string(name(why)) + "); its server makes another one");
  untold_[certificate.master].push_back({certificate.segment, certificate.replica_epoch});
  tell_at_ns_ = nowNs();
}

runtime::Task<void> Scrubber::tellMasters() {
  tell_at_ns_ = nowNs() + kTellAgainNs;
  std::vector<ServerId> masters;
  for (const auto& [master, lost] : untold_) masters.push_back(master);
  const ReplicaJudge::Standings judged = co_await parts_.judge.standings(masters);
  if (judged.status != Status::Ok || judged.standings.size() != masters.size()) co_return;
  for (size_t i = 0; i < masters.size() && !stop_; ++i) {
    // Nobody makes another replica for a dead master. Its recovery finds out what can be read.
    const bool is_dead = judged.standings[i] == Standing::Needed || judged.standings[i] == Standing::Released;
    if (is_dead) untold_.erase(masters[i]);
    if (judged.standings[i] != Standing::Alive) continue;
    const auto address = std::find_if(judged.alive.begin(), judged.alive.end(),
                                      [&](const rpc::PeerAddress& alive) { return alive.id == masters[i].value; });
    if (address == judged.alive.end()) continue;
    const std::vector<ReplicaJudge::Lost> lost = untold_[masters[i]];
    const Status told = co_await parts_.judge.reportLost(*address, lost);
    if (told == Status::Ok) untold_.erase(masters[i]);
  }
}

}  // namespace ramcore::backup
