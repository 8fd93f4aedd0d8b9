#pragma once

#include <array>
#include <span>
#include <vector>

#include "transport/datagram/datagram_clock.h"
#include "transport/datagram/datagram_options.h"
#include "transport/datagram/frame_port.h"
#include "transport/datagram/packet_seal.h"
#include "transport/datagram/session.h"

namespace ramcore::transport::datagram {

/// Makes Ethernet frames of the packets of one endpoint and sends them. Frames wait until flush(), and for as long as
/// their port does not take them. One thread.
class PacketSender {
 public:
  /// The ports and their table are borrowed, and so are the others.
  PacketSender(const DatagramOptions& options, DatagramClock& clock, std::span<FramePort* const> ports);
  PacketSender(const PacketSender&) = delete;
  PacketSender& operator=(const PacketSender&) = delete;

  /// Sends a packet of a message. Returns false if the port takes no more for now.
  /// @param packet    its number in the message
  /// @param is_again  it was sent before
  bool send(const Session& session, Outgoing& outgoing, uint32_t packet, bool is_again);

  // Control packets are sent again only if they are asked for again, and are dropped if the port takes no more.

  /// @param seal  of our direction of the session
  void sendControlPacket(const Route& route, const PacketSeal& seal, wire::PacketKind kind,
                         wire::PacketHeader header = {}, ByteSpan body = {});
  /// Sends a control packet of an open session.
  void sendControlPacket(const Session& session, wire::PacketKind kind, const wire::PacketHeader& header = {},
                         ByteSpan body = {});
  /// Sends a packet that belongs to no open session.
  void sendUnsealed(uint32_t port, const MacAddress& to, wire::PacketKind kind, const wire::PacketHeader& header,
                    std::span<const ByteSpan> body);
  /// The checksum of packets that belong to no open session.
  const PacketSeal& noSeal() const { return no_seal_; }

  /// Gives frames that wait to their ports.
  void flush();
  /// Whether frames wait for their ports.
  bool hasBacklog() const;
  /// Runs the timeouts of a port: may make system calls. Returns true if it joins two processes and its link has ended
  /// since the last time.
  bool runPortTimeouts(uint32_t port);
  /// Drops the frames that a port has not taken for too long.
  void dropStalled(uint32_t port);
  /// Gives frames that wait to their ports, and ends the ports.
  void stop();

  const SendCounts& sendCounts() const { return send_counts_; }
  /// Counts of what is sent; the others are 0.
  const PacketCounts& packetCounts() const { return packet_counts_; }

 private:
  /// An Ethernet frame that is being made, and where its payload stands.
  struct Frame {
    OutFrame handle;
    std::byte* start = nullptr;
    size_t piece_count = 0;  ///< number of payload pieces in frame_pieces_
  };
  /// Ethernet frames that a port has not taken yet.
  struct TxBacklog {
    std::vector<OutFrame> frames;
    int64_t refused_since_ns = runtime::kNever;  ///< since when the port takes none of them; kNever: it refused nothing
    bool has_link = false;
  };
  /// The chunks of a message that one packet holds, or the parts of them.
  struct Cut {
    std::array<Chunk, TxBuffer::kChunkCountMax> chunks;
    std::array<bool, TxBuffer::kChunkCountMax> is_cut;  // a piece of a longer chunk
    uint32_t chunk_count = 0;

    std::span<const Chunk> all() const { return std::span(chunks).first(chunk_count); }
  };

  static Cut cutChunks(const TxBuffer& message, uint32_t offset, uint32_t bytes);
  bool isLong(const Cut& cut, size_t chunk) const;
  bool gatherFrame(FramePort& port, Outgoing& outgoing, ByteSpan head, uint32_t offset, uint32_t bytes, Frame& frame);
  GatherPlan planFrame(const FramePort& port, const Outgoing& outgoing, const Cut& cut, size_t head_bytes) const;
  bool addPieces(FramePort& port, Outgoing& outgoing, std::span<const Chunk> chunks, const GatherPlan& plan,
                 size_t first, Frame& frame);
  void countChunks(const Cut& cut, const GatherPlan& plan);
  /// Writes kind, addresses and header; `seal` goes into the header.
  void writeStart(std::byte* at, const MacAddress& to, wire::PacketKind kind, const HeaderWords& header,
                  uint64_t seal) const;
  void sendOn(uint32_t port, const MacAddress& to, const PacketSeal& seal, wire::PacketKind kind,
              wire::PacketHeader header, std::span<const ByteSpan> body);
  void flushPort(uint32_t port);

  // What each packet needs stands in front.
  const std::span<FramePort* const> ports_;
  std::vector<TxBacklog> backlogs_;  // by port
  const MacAddress address_;
  const DatagramOptions& options_;
  DatagramClock& clock_;
  SendCounts send_counts_;
  PacketCounts packet_counts_;
  // The pieces of the frame that is being made. (Not a member of Frame: to initialize each takes as long as a seal.)
  std::array<ByteSpan, TxBuffer::kChunkCountMax + 1> frame_pieces_;
  const PacketSeal no_seal_;
};

}  // namespace ramcore::transport::datagram
