#pragma once

#include <memory>

#include "transport/verbs/device.h"
#include "wire/verbs_messages.h"

namespace ramcore::transport::verbs {

/// How a reliable connection behaves where packets are lost or the other end is busy.
struct ConnectionTiming {
  /// Time without an acknowledgement after which packets are sent again: 4.096 us x 2^this.
  uint8_t ack_timeout = 17;  // 0.5 s
  /// Packets are sent again this many times; then the connection is broken. At most 7, which software devices (rxe)
  /// take for "for ever".
  uint8_t retry_count = 6;
  /// How long a sender waits that finds no receive buffer, in the encoding of the standard; 5: 60 us.
  uint8_t no_buffer_timer = 5;
};

/// A reliable connected queue pair. It accepts one-sided transfers only at the end that announces memory for them.
///
/// Thread: the endpoint's.
class QueuePair {
 public:
  struct Parts {
    const Device& device;
    ibv_cq* send_completions;
    ibv_cq* receive_completions;
    ibv_srq* receives;
  };
  /// The size that is asked for; what the device gives (size()) may be more or less.
  struct Size {
    uint32_t sends = 0;   ///< work requests
    uint32_t gather = 0;  ///< entries of one
    uint32_t inline_bytes = 0;
  };

  /// @param lets_peer_transfer  the peer may read and write what is registered for that.
  /// Failure: NoSpace: the device has no more; IoError.
  static Outcome<std::unique_ptr<QueuePair>> make(const Parts& parts, const Size& size, bool lets_peer_transfer,
                                                  uint32_t first_packet);

  ibv_qp* raw() const { return pair_.get(); }
  uint32_t number() const { return pair_->qp_num; }
  const Size& size() const { return size_; }

  /// The address that the peer has to know, without the proof.
  wire::VerbsAddress address(uint32_t receive_bytes) const;
  /// Makes the queue pair ready to receive and to send. REQUIRES: checkAddress() has nothing against the address.
  /// Failure: IoError.
  Outcome<bool> connect(const wire::VerbsAddress& peer, const ConnectionTiming& timing);
  /// Puts the queue pair into error: all that is posted comes back, flushed.
  void fail();

 private:
  QueuePair(const Device& device, RawQueuePair pair, const Size& size, bool lets_peer_transfer, uint32_t first_packet)
      : device_(device),
        pair_(std::move(pair)),
        size_(size),
        lets_peer_transfer_(lets_peer_transfer),
        first_packet_(first_packet) {}
  bool initialize();

  const Device& device_;
  RawQueuePair pair_;
  const Size size_;
  const bool lets_peer_transfer_;
  const uint32_t first_packet_;
};

}  // namespace ramcore::transport::verbs
