#include "transport/sim/sim_network.h"

#include <string>

#include "base/check.h"

namespace ramcore::transport {

SimNetwork::SimNetwork(runtime::SimScheduler& scheduler, const SimNetworkOptions& options)
    : scheduler_(scheduler), options_(options), sessions_(scheduler, options_, paths_) {
  RC_CHECK(options.latency_ns_min >= 0 && options.latency_ns_max >= options.latency_ns_min);
  RC_CHECK(options.give_up_ns_min >= 0 && options.give_up_ns_max >= options.give_up_ns_min);
  if (options.mode == SimMode::Frames) frames_ = std::make_unique<SimFrameNodes>(scheduler, options_, paths_);
}

SimNetwork::~SimNetwork() {
  RC_CHECK_MSG(frames_ == nullptr || !frames_->hasEndpoints(), "an endpoint outlived the simulated network");
}

// Random numbers for one endpoint; each endpoint has others.
runtime::Random SimNetwork::endpointRandom() {
  return scheduler_.stream("endpoint" + std::to_string(++last_endpoint_));
}

// The seed of the random numbers of one endpoint; each endpoint has another one.
uint64_t SimNetwork::frameSeed() { return scheduler_.stream("frames." + std::to_string(++last_endpoint_)).next(); }

void SimNetwork::setRates(const SimFaultRates& rates) {
  sessions_.setRates(rates);
  if (frames_ != nullptr) frames_->setRates(rates);
}

SimFaultCounts SimNetwork::counts() const {
  SimFaultCounts counts = sessions_.counts();
  counts.partitions = partitions_;
  if (frames_ != nullptr) frames_->addTo(counts);
  return counts;
}

// ---- Partitions

void SimNetwork::silence(std::string_view node) {
  if (frames_ != nullptr) frames_->silence(node);
}

void SimNetwork::partitionOneWay(std::string_view from, std::string_view to) {
  partitions_ += paths_.block(from, to) ? 1 : 0;
}

void SimNetwork::partition(std::string_view a, std::string_view b) {
  const bool forth = paths_.block(a, b);
  const bool back = paths_.block(b, a);
  partitions_ += forth || back ? 1 : 0;
}

void SimNetwork::isolate(std::string_view node) { partitions_ += paths_.isolate(node) ? 1 : 0; }

void SimNetwork::unhush(std::string_view node) {
  paths_.unhush(node);
  sessions_.releaseHeld();
}

void SimNetwork::heal(std::string_view a, std::string_view b) {
  if (paths_.unblock(a, b)) sessions_.releaseHeld();
}

void SimNetwork::rejoin(std::string_view node) {
  if (paths_.rejoin(node)) sessions_.releaseHeld();
}

void SimNetwork::healAll() {
  paths_.healAll();
  sessions_.releaseHeld();
}

void SimNetwork::unstall() {
  paths_.unstall();
  sessions_.releaseStalled();
}

void SimNetwork::stopReading(std::string_view node) {
  paths_.stopReading(node);
  if (frames_ != nullptr) frames_->setTaking(node, false);
}

void SimNetwork::resumeReading(std::string_view node) {
  paths_.resumeReading(node);
  if (frames_ != nullptr) frames_->setTaking(node, true);
}

}  // namespace ramcore::transport
