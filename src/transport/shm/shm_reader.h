#pragma once

#include <utility>
#include <vector>

#include "transport/session/receptions.h"
#include "transport/session/stalls.h"
#include "transport/shm/shm_sessions.h"
#include "transport/shm/shm_writer.h"

namespace ramcore::transport::shm {

/// Takes messages out of the rings of one endpoint's sessions, and bounds how much of them it holds. One thread.
class ShmReader final : public RingHandler {
 public:
  /// All borrowed. What waits in `writer` counts as held, too.
  ShmReader(const ShmOptions& options, const ShmContext& context, ShmSessions& sessions, const ShmWriter& writer,
            const MessagePool& messages)
      : options_(options), context_(context), sessions_(sessions), writer_(writer), messages_(messages) {}

  uint32_t pollSession(Session& session, uint32_t message_max) override;
  /// Gives the sink the requests that were found.
  void handOver(MessageSink& sink);

  /// Whether only the beginning of a message has come from some session.
  bool hasReceptions() const { return !receptions_.empty(); }
  void checkReceptions(int64_t now_ns);
  int64_t nextReceptionNs() const { return receptions_.nextNs(sessions_.table(), options_.stall_close_ns); }
  void considerStalled(LargestHolder<Session>& largest, int64_t now_ns) const;
  /// Whether a message had to wait for memory since this was last asked.
  bool takeShortness() { return std::exchange(is_short_of_memory_, false); }

 private:
  void deliver(Session& session, const wire::FrameHeader& header, RxMessage message);
  void closeEnded(Session& session);
  uint64_t roomBytes(const Session& session) const;

  const ShmOptions& options_;
  const ShmContext& context_;
  ShmSessions& sessions_;
  const ShmWriter& writer_;
  const MessagePool& messages_;
  Receptions<ShmSessions::Table> receptions_;
  std::vector<RxMessage> requests_;  // found in this round
  bool is_short_of_memory_ = false;
};

}  // namespace ramcore::transport::shm
