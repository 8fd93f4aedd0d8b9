#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "transport/session/warnings.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/ready_flag.h"
#include "transport/verbs/receive_buffers.h"
#include "transport/verbs/verbs_options.h"

namespace ramcore::transport::verbs {

/// The queues and events of one endpoint: one completion queue each for what arrives and for what was sent, the events
/// that end a sleep, those of the device, and the receive buffers. Makes queue pairs for whose completions and messages
/// there is room. A look at the queues makes no system call of ours. One thread.
class VerbsQueues {
 public:
  /// A queue pair of which the device told an error.
  struct BrokenPair {
    uint32_t number = 0;
    std::string why;
    bool is_malformed = false;  ///< the peer's request is to blame
  };

  /// All borrowed. ready() says whether it has succeeded.
  VerbsQueues(const VerbsOptions& options, const VerbsContext& context, const Device& device, EpollSleeper& sleeper,
              TimeoutRounds& rounds, Warnings& warnings);
  VerbsQueues(const VerbsQueues&) = delete;
  VerbsQueues& operator=(const VerbsQueues&) = delete;
  /// REQUIRES: the queue pairs are gone.
  ~VerbsQueues();

  /// True, or why there are no queues: then no other function may be called but the const ones.
  const Outcome<bool>& ready() const { return is_ready_; }
  ReceiveBuffers& receives() { return receives_; }
  const ReceiveBuffers& receives() const { return receives_; }

  /// Makes a queue pair for a session of so many slots.
  /// @param is_server  the session was accepted
  /// @param why        set if nullptr is returned: cause and remedy
  std::unique_ptr<QueuePair> makePair(bool is_server, uint16_t slot_count, std::string& why);
  /// Frees the room of a queue pair that makePair() made.
  void release(const QueuePair& pair, uint16_t slot_count);

  /// Messages that have arrived, whatever has become of them.
  uint64_t arrivalCount() const { return arrival_count_; }
  /// True if everything has been taken that was there when the count of arrivals was `mark`.
  bool hasTakenAll(uint64_t mark) const { return arrival_count_ > mark + receives_.count(); }

  /// Takes up to `count_max` completions of what has arrived: take(const ibv_wc&, ReceiveBuffer&) for each, which
  /// borrows the buffer or recycles it. Sets `is_empty` if there was no more.
  template <typename Take>
  void pollArrivals(uint32_t count_max, bool& is_empty, const Take& take);
  /// Takes some completions of what was sent: take(const ibv_wc&) for each.
  template <typename Take>
  void pollDepartures(const Take& take);

  /// Before a sleep: completions become events. Returns false if there were some already; what was sent is taken as by
  /// pollDepartures(), and what has arrived is kept for the next round.
  template <typename Take>
  bool arm(const Take& take_departure);
  /// Whether arm() has kept something.
  bool hasKept() const { return !kept_.empty(); }
  /// Whether the sleeper has told of completions.
  bool areCompletionsTold() const { return completions_ready_.isReady(); }

  /// Takes the events of completions that the sleeper has told of.
  void takeCompletionEvents();
  /// Takes the events of the device. Those that people should know are traced; the queue pairs that broke are returned.
  std::vector<BrokenPair> takeDeviceEvents();

 private:
  Outcome<bool> make();
  bool reserveCompletions(uint32_t more);
  template <typename Take>
  void takeArrival(const ibv_wc& completion, const Take& take);
  void note(const ibv_async_event& event, const std::string& what, std::vector<BrokenPair>& broken);

  const VerbsOptions& options_;
  const VerbsContext& context_;
  const Device& device_;
  Warnings& warnings_;

  // The order here is the order in which things depend on each other.
  CompletionChannel events_;
  CompletionQueue arrivals_;
  CompletionQueue departures_;
  ReceiveBuffers receives_;
  ReadyFlag completions_ready_;
  ReadyFlag device_ready_;

  Outcome<bool> is_ready_ = true;
  uint32_t arrival_events_ = 0;  // to be acknowledged
  uint32_t departure_events_ = 0;
  bool arrivals_armed_ = false;
  bool departures_armed_ = false;
  uint32_t departures_size_ = 0;
  uint32_t departures_reserved_ = 0;
  uint32_t receives_wanted_ = 0;
  std::vector<ibv_wc> kept_;  // arrivals that arm() has found
  uint64_t arrival_count_ = 0;
};

template <typename Take>
void VerbsQueues::takeArrival(const ibv_wc& completion, const Take& take) {
  ++arrival_count_;
  receives_.arrived();
  take(completion, *reinterpret_cast<ReceiveBuffer*>(completion.wr_id));
}

template <typename Take>
void VerbsQueues::pollArrivals(uint32_t count_max, bool& is_empty, const Take& take) {
  if (!kept_.empty()) [[unlikely]] {
    const size_t count = std::min<size_t>(kept_.size(), count_max);
    const std::vector<ibv_wc> kept(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(count));
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(count));
    for (const ibv_wc& completion : kept) takeArrival(completion, take);
    return;
  }
  std::array<ibv_wc, 64> completions;
  const int wanted = static_cast<int>(std::min<size_t>(count_max, completions.size()));
  const int count = ibv_poll_cq(arrivals_.get(), wanted, completions.data());
  RC_CHECK_MSG(count >= 0, "the RDMA device does not tell what has arrived");
  for (int i = 0; i < count; ++i) takeArrival(completions[static_cast<size_t>(i)], take);
  is_empty = count < wanted;
}

template <typename Take>
void VerbsQueues::pollDepartures(const Take& take) {
  std::array<ibv_wc, 64> completions;
  const int count = ibv_poll_cq(departures_.get(), static_cast<int>(completions.size()), completions.data());
  RC_CHECK_MSG(count >= 0, "the RDMA device does not tell what was sent");
  for (int i = 0; i < count; ++i) take(completions[static_cast<size_t>(i)]);
}

template <typename Take>
bool VerbsQueues::arm(const Take& take_departure) {
  if (!arrivals_armed_) arrivals_armed_ = ibv_req_notify_cq(arrivals_.get(), 0) == 0;
  if (!departures_armed_) departures_armed_ = ibv_req_notify_cq(departures_.get(), 0) == 0;
  // What came before the queues were armed causes no event.
  std::array<ibv_wc, 16> completions;
  const int arrived = ibv_poll_cq(arrivals_.get(), static_cast<int>(completions.size()), completions.data());
  if (arrived > 0) kept_.insert(kept_.end(), completions.begin(), completions.begin() + arrived);
  const int departed = ibv_poll_cq(departures_.get(), static_cast<int>(completions.size()), completions.data());
  for (int i = 0; i < departed; ++i) take_departure(completions[static_cast<size_t>(i)]);
  return arrived == 0 && departed == 0;
}

}  // namespace ramcore::transport::verbs
