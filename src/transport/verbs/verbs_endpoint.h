#pragma once

#include <optional>

#include "transport/session/timeout_rounds.h"
#include "transport/session/warnings.h"
#include "transport/verbs/borrow_watch.h"
#include "transport/verbs/channels.h"
#include "transport/verbs/early_messages.h"
#include "transport/verbs/verbs_acceptor.h"
#include "transport/verbs/verbs_connector.h"
#include "transport/verbs/verbs_greeter.h"
#include "transport/verbs/verbs_memory.h"
#include "transport/verbs/verbs_queues.h"
#include "transport/verbs/verbs_receiver.h"
#include "transport/verbs/verbs_sender.h"
#include "transport/verbs/verbs_sessions.h"
#include "transport/verbs/verbs_sockets.h"
#include "transport/verbs/verbs_transfers.h"
#include "transport/verbs/waiting_reads.h"

namespace ramcore::transport::verbs {

/// Sessions of one thread over queue pairs, with one shared receive queue and one completion queue each for what
/// arrives and for what was sent. A round of poll() looks at the two and makes no system call of ours; the sockets
/// beside the queue pairs, by which sessions begin and end, are looked at when a sleep ended because of them and
/// otherwise rarely. This class puts the parts together, and decides in which round which of them runs.
class VerbsEndpoint final : public Endpoint {
 public:
  /// `limits` is that of the transport, `regions` the memory that it has registered. All borrowed.
  VerbsEndpoint(const VerbsOptions& options, const VerbsContext& context, const Limits& limits, const Device& device,
                const Regions& regions, const Identity& identity);

  const Limits& limits() const override { return limits_; }
  Outcome<Locator> listen(const Locator& where) override { return acceptor_.listen(where); }
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) override {
    return connector_.connect(where, expected_id, deadline_ns);
  }
  TxMessage allocate(uint32_t head_bytes) override { return TxMessage(memory_.heads.takeBuffer(head_bytes)); }
  Status call(SessionId session, TxMessage& request, const CallOptions& options, PendingCall& call) override;
  void abandon(SessionId session, PendingCall& call) override;
  void reply(const ReplyTo& to, TxMessage response) override;
  uint32_t poll(MessageSink& sink, uint32_t message_max) override;
  void flush() override { sender_.flush(); }
  bool prepareSleep() override;
  void awake() override;
  const Peer* peer(SessionId session) const override;
  void close(SessionId session) override;
  uint32_t sessionCount() const override { return sessions_.admission().openCount(); }
  uint64_t badSessionCount() const override { return sessions_.badCount(); }
  BorrowedCounts borrowedCounts() const override { return watch_.counts(); }
  SendCounts sendCounts() const override { return send_counts_; }
  uint64_t registeredBytes() const override {
    return memory_.blocks.registeredBytes() + queues_.receives().registeredBytes();
  }

  /// Whether memory windows open the memory of a transfer to one queue pair only.
  static bool usesWindows(const VerbsOptions& options, const Device& device);
  /// True, or why there are no queues: then the endpoint does not listen, and connects to nobody.
  const Outcome<bool>& ready() const { return queues_.ready(); }
  /// Queue pairs that are there, those of lost sessions that are not drained yet included.
  size_t queuePairCount() const { return channels_.count(); }
  /// Bytes of messages that are being read from where peers announced them, or were and are borrowed.
  uint64_t heldBytes() const { return memory_.read_messages.heldBytes(); }

  /// Called with the events that the sleeper tells of a session's socket.
  void onReady(Session& session, uint32_t) { sockets_.note(session); }

 private:
  bool hasDeadlines() const;
  bool hasWork() const;
  void runDueTimeouts(MessageSink& sink);
  void takeDeviceEvents();
  int64_t nextDeadlineNs() const;

  const VerbsOptions options_;
  const VerbsContext context_;
  const Limits limits_;
  Warnings warnings_;
  std::optional<EpollSleeper> own_sleeper_;  // of a thread that never sleeps
  EpollSleeper& sleeper_;
  TimeoutRounds rounds_;

  // These are what adapters use, in the order in which things depend on each other. They are destroyed last; sessions,
  // which are destroyed before, give their queue pairs to the channels.
  VerbsMemory memory_;
  SendScratch scratch_;
  SendCounts send_counts_;
  VerbsQueues queues_;
  Channels channels_;

  EarlyMessages early_;
  WaitingReads waiting_reads_;
  VerbsSessions sessions_;
  BorrowWatch watch_;
  VerbsSender sender_;
  VerbsTransfers transfers_;
  VerbsAcceptor acceptor_;
  VerbsGreeter greeter_;
  VerbsConnector connector_;
  VerbsSockets sockets_;
  VerbsReceiver receiver_;
  bool had_messages_ = false;  // since runDueTimeouts() last ran
  bool is_asleep_ = false;
};

}  // namespace ramcore::transport::verbs
