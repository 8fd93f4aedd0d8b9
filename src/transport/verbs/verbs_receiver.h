#pragma once

#include <vector>

#include "transport/verbs/decoding.h"
#include "transport/verbs/verbs_sockets.h"
#include "transport/verbs/verbs_transfers.h"

namespace ramcore::transport::verbs {

/// Takes what the completion queues of one endpoint have: messages that arrived, and the ends of what was sent. One
/// thread.
class VerbsReceiver {
 public:
  /// What it works with. All borrowed.
  struct Parts {
    PlacePool& places;
    VerbsQueues& queues;
    Channels& channels;
    VerbsSessions& sessions;
    EarlyMessages& early;
    VerbsSockets& sockets;
    VerbsSender& sender;
    VerbsTransfers& transfers;
  };
  explicit VerbsReceiver(const Parts& parts) : parts_(parts) {}

  /// Takes messages: those that were read by transfers, those that came early, and those that arrive. Completes calls;
  /// requests wait for handOver(). Returns how many messages there were, not more than `message_max`.
  /// @param is_empty  set if all that had arrived has been taken
  uint32_t takeArrivals(uint32_t message_max, bool& is_empty);
  /// Takes completions of what was sent; no call completes.
  void takeDepartures();
  /// The same, before a sleep: completions become events. Returns false if there were some already.
  bool prepareSleep();
  /// Gives the sink the requests that were found.
  void handOver(MessageSink& sink) {
    if (requests_.empty()) return;
    sink.onRequests(requests_);
    requests_.clear();
  }

 private:
  void onArrival(const ibv_wc& completion, ReceiveBuffer& buffer);
  void keepForLater(const ibv_wc& completion, const ReceiveBuffer& buffer);
  void takeEarly(const EarlyMessages::Message& early);
  void onDeparture(const ibv_wc& completion);
  bool takeMessage(Session& session, const wire::VerbsHeader& header, RxMessage message);
  bool takeWord(Session& session, const VerbsMessage& word);
  bool takeRequest(Session& session, const wire::VerbsHeader& header, RxMessage message);
  bool takeResponseWritten(Session& session, const wire::VerbsHeader& header);
  void finishCall(Session& session, const wire::VerbsHeader& header, RxMessage message);

  const Parts parts_;
  std::vector<RxMessage> requests_;   // found in this round
  std::vector<uint16_t> read_slots_;  // scratch
  uint64_t delivered_count_ = 0;
};

}  // namespace ramcore::transport::verbs
