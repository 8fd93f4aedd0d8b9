#pragma once

#include <algorithm>

#include "rpc/endpoint_counts.h"
#include "rpc/open_sessions.h"
#include "rpc/session_ends.h"
#include "transport/transport.h"

namespace ramcore::rpc {

/// An endpoint that a dispatch polls, with what the dispatch keeps of its sessions.
/// Threads: counts(), and SessionEnds::hasEnded() of ends(), on any thread; the rest on the dispatch thread.
class PolledEndpoint {
 public:
  /// @param endpoint  borrowed
  /// @param burst_messages_max  messages taken at a time, at most; the endpoint may set a lower limit
  PolledEndpoint(transport::Endpoint& endpoint, uint32_t burst_messages_max)
      : endpoint_(endpoint), burst_(std::min(burst_messages_max, endpoint.limits().burst_messages_max)) {}

  transport::Endpoint& endpoint() const { return endpoint_; }
  uint32_t poll(transport::MessageSink& sink) { return endpoint_.poll(sink, burst_); }
  const SessionEnds& ends() const { return ends_; }
  const OpenSessions& openSessions() const { return open_; }
  void noteOpened(transport::SessionId session) { open_.opened(session); }
  void noteLost(transport::SessionId session) {
    ends_.note(session);
    open_.lost(session);
  }

  /// The counts that were last published.
  const EndpointCounts& counts() const { return counts_; }
  /// Publishes the endpoint's counts for other threads.
  void publishCounts();

 private:
  transport::Endpoint& endpoint_;
  const uint32_t burst_;
  EndpointCounts counts_;
  SessionEnds ends_;
  OpenSessions open_;
};

}  // namespace ramcore::rpc
