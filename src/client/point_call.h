#pragma once

#include <string>

#include "client/cluster_client.h"

namespace ramcore::client {

/// A call on one object whose first attempt needs no coroutine, no allocation and no look at the clock. That is nearly
/// always enough for a warm client. If that attempt does not settle the call, ClusterClient goes on from there.
///
/// Owned by the code that waits for it, from start() until `done` has run or start() has returned true.
/// Thread: as ClusterClient.
class PointCall final : private rpc::OutgoingCall {
 public:
  /// Runs once, on the dispatch thread, when `result` is there.
  using Done = void (*)(PointCall&);
  PointCall(ClusterClient& client, Done done) : OutgoingCall(&PointCall::attempted), client_(client), done_(done) {
    settings.is_hopeless = &PointCall::isHopeless;
    settings.context = this;
  }

  /// Starts the call. True: it is over already and `done` will not run.
  /// @param timeout_ns   for the whole call. Zero or less: it ends with DeadlineExceeded, and nothing is sent.
  /// @param deadline_ns  the same as a time, if the caller has looked at the clock; kNever: the caller calls
  ///                     expire() in time.
  /// @param owner        what owner() gives back, for `done`.
  bool start(const PointRequest& request, int64_t timeout_ns, int64_t deadline_ns, void* owner);
  void* owner() const { return owner_; }
  /// Ends the call if `deadline_ns` is over; the caller has looked at the clock. `done` may run inside.
  void expire(int64_t now_ns, int64_t deadline_ns);

  PointResult result;

 private:
  static void attempted(OutgoingCall& call);
  static bool isHopeless(void* call);
  bool sendFirst();
  void goOn();
  runtime::Task<void> continueSlowly();

  ClusterClient& client_;
  Done done_;
  void* owner_ = nullptr;
  PointRequest request_;
  CallProgress progress_;
  int64_t timeout_ns_ = 0;
  int64_t deadline_ns_ = runtime::kNever;
  rpc::Connection* connection_ = nullptr;  // of the first attempt, while it is in flight
  TabletFinder::Place place_;              // of the first attempt
  bool starting_ = false;
  bool over_while_starting_ = false;
};

}  // namespace ramcore::client
