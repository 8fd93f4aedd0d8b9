#include "runtime/sim/sim_node.h"

namespace ramcore::runtime {

SimNode::SimNode(SimScheduler& scheduler, SimTraceLog& log, std::string_view name,
                 const SimClock::Options& clock_options)
    : scheduler_(scheduler),
      name_(name),
      clock_(scheduler, name, clock_options),
      trace_(log, name),
      entropy_(scheduler.stream("entropy." + name_).next()) {}

Random SimNode::stream(std::string_view component) const {
  return scheduler_.stream(name_ + "." + std::string(component));
}

SimExecutor& SimNode::makeExecutor(std::string_view name) { return makeExecutor(name, SimExecutor::Delays{}); }

SimExecutor& SimNode::makeExecutor(std::string_view name, const SimExecutor::Delays& delays) {
  executors_.push_back(std::make_unique<SimExecutor>(scheduler_, clock_, name_ + "." + std::string(name), delays));
  if (paused_) executors_.back()->pause();
  return *executors_.back();
}

void SimNode::pause() {
  paused_ = true;
  for (auto& executor : executors_) executor->pause();
}

void SimNode::resume() {
  paused_ = false;
  for (auto& executor : executors_) executor->resume();
}

void SimNode::kill() {
  for (auto& executor : executors_) executor->kill();
}

bool SimNode::drain(uint64_t jobs_max) {
  uint64_t jobs = 0;
  for (;;) {
    uint64_t round = 0;
    for (auto& executor : executors_) round += executor->drain(jobs_max - jobs - round);
    if (round == 0) break;
    jobs += round;
    if (jobs == jobs_max) break;
  }
  for (auto& executor : executors_) {
    if (!executor->isIdle()) return false;
  }
  return true;
}

}  // namespace ramcore::runtime
