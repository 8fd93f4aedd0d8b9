#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/real/system_clock.h"
#include "transport/session/handshake.h"
#include "transport/verbs/greeting.h"
#include "transport/verbs/side_socket.h"

namespace ramcore::transport::verbs {

/// A peer that has the cluster's secret and a queue pair, and sends any bytes: to the process that it connects to, or
/// that connects to it.
class HostilePeer {
 public:
  /// Lets the others go on meanwhile.
  using Step = std::function<void()>;

  /// @param receive_count  buffers for what it is sent; 0: it takes nothing.
  HostilePeer(const Identity& identity, uint32_t receive_count);
  ~HostilePeer();

  /// Meets the server and gets its queue pair connected. False: it was refused.
  /// @param says_ready  or stops short of the last word
  bool connect(const Locator& server, const Step& step, bool says_ready = true);
  /// Lets it say the last word.
  void sayReady();
  /// Listens, and gives the locator at which others may connect.
  Locator listen();
  /// Meets who connects, as connect() does. The session that it had ends. False: that one left again.
  bool accept(const Step& step);

  void send(const wire::VerbsHeader& header, ByteSpan body = {});
  /// A one-sided transfer of `bytes` bytes, allowed or not.
  void transfer(ibv_wr_opcode opcode, uint64_t address, uint32_t key, uint32_t bytes = 64);
  /// Transfers that were let through.
  uint32_t transferCount();
  /// The bytes that the last successful transfer read.
  const std::vector<std::byte>& lastRead() const { return last_read_; }
  /// Memory that may be read and written: a request of `bytes` bytes stands there, in pieces that may overlap.
  std::vector<wire::VerbsPiece> announce(uint32_t bytes, uint32_t piece_count);
  /// The next message that it was sent, header included; empty: none is there.
  std::vector<std::byte> receive();
  /// True once the queue pair has completed something with an error.
  bool isBroken();
  void closeSocket() { socket_.reset(); }
  /// The queue pair goes, and the socket stays: nobody is told.
  void fallSilent() { pair_.reset(); }

  /// Changes what it tells of its queue pair, before it proves that, or on the way.
  std::function<void(wire::VerbsAddress&)> change;
  std::function<void(wire::VerbsAddress&)> forge;

 private:
  bool meet(HandshakeSide side, const Step& step);
  bool sendAll(ByteSpan bytes);
  bool receiveAll(MutableByteSpan into, const std::function<bool()>& goes_on);
  void post(ibv_send_wr& request, ByteSpan bytes);
  void postReceive(uint64_t number);
  void takeCompletions();

  const Identity identity_;
  runtime::SystemEntropy entropy_;
  runtime::SystemClock clock_;
  std::unique_ptr<Device> device_;
  std::vector<std::byte> memory_;
  MemoryRegion region_;
  std::vector<std::byte> announced_;
  MemoryRegion announced_region_;
  CompletionQueue completions_;
  SharedReceiveQueue receives_;
  std::unique_ptr<QueuePair> pair_;
  Descriptor listening_;
  std::vector<Locator> locators_;
  Descriptor socket_;
  uint32_t next_send_ = 0;
  uint32_t transfer_count_ = 0;
  bool is_broken_ = false;
  std::vector<std::byte> last_read_;
  std::vector<std::vector<std::byte>> received_;
};

}  // namespace ramcore::transport::verbs
