#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "transport/verbs/borrow_watch.h"
#include "transport/verbs/decoding.h"
#include "transport/verbs/verbs_sender.h"

namespace ramcore::transport::verbs {

/// Messages of one endpoint that fit no receive buffer: the side that was connected to reads requests from where the
/// other one announced them, and writes answers to the place that the other one gives. One thread.
class VerbsTransfers {
 public:
  /// What it works with. All borrowed.
  struct Parts {
    const VerbsOptions& options;
    const VerbsContext& context;
    VerbsMemory& memory;
    SendCounts& counts;
    const ReceiveBuffers& receives;
    VerbsSessions& sessions;
    VerbsSender& sender;
    BorrowWatch& watch;
    WaitingReads& waiting;
    const TimeoutRounds& rounds;
  };
  explicit VerbsTransfers(const Parts& parts) : parts_(parts) {}

  /// Begins a call with a request that needs a transfer. As Endpoint::call.
  Status offerRequest(Session& session, TxMessage& request, wire::VerbsHeader header, PendingCall& call,
                      const CallOptions& options);
  /// Answers with a message that needs a transfer.
  void offerResponse(Session& session, const wire::VerbsHeader& header, TxMessage response);

  // These take control packets of an open session about messages that stand elsewhere. False: no honest peer sends
  // this.
  bool takeRequestOffer(Session& session, const VerbsMessage& offer);
  bool takeResponseOffer(Session& session, const wire::VerbsHeader& header);
  bool takeResponsePlace(Session& session, const VerbsMessage& word);
  /// @param response  the answer to the call that the header names
  bool takeResponseWritten(Session& session, const wire::VerbsHeader& header, RxMessage& response);

  /// To be called when all of a request that was announced has been read.
  void noteRead(SessionId session, uint16_t slot) { ready_.push_back({session, slot}); }
  /// Whether there are some that deliverReads() has not delivered.
  bool hasReads() const { return !ready_.empty(); }
  /// Puts up to `count_max` of them behind `requests`; returns how many.
  uint32_t deliverReads(uint32_t count_max, std::vector<RxMessage>& requests);
  /// Begins reads that wait for memory, as far as there is some. If they wait for too long a session gives way.
  void startReads();

 private:
  struct ReadyRead {
    SessionId session;
    uint16_t slot;
  };
  enum class ReadStart : uint8_t {
    Begun,
    BeyondBound,
    NoMemory,  ///< no memory can be registered
  };

  static wire::VerbsPiece openPlace(Session& session, const std::shared_ptr<Place>& place, uint32_t bytes);
  ReadStart startRead(Session& session, uint16_t slot);
  bool evictStalled();
  void giveUpFirstRead();
  bool deliver(const ReadyRead& ready, std::vector<RxMessage>& requests);

  const Parts parts_;
  std::deque<ReadyRead> ready_;  // requests that were read and are not delivered yet
};

}  // namespace ramcore::transport::verbs
