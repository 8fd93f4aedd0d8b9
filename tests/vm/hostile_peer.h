#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/real/system_clock.h"
#include "transport/handshake.h"
#include "transport/verbs/greeting.h"
#include "transport/verbs/side_socket.h"

namespace ramcore::transport::verbs {

/// Somebody who has the cluster's secret and a queue pair, and sends what it likes.
class HostilePeer {
 public:
  /// @param receive_count  buffers for what the server sends; 0: it takes nothing.
  HostilePeer(const Locator& server, const Identity& identity, uint32_t receive_count);
  ~HostilePeer();

  /// Meets the server and gets its queue pair connected, stepping `step` meanwhile. False: it was refused.
  /// @param says_ready  or stops short of the last word
  bool connect(const std::function<void()>& step, bool says_ready = true);
  /// Lets it say the last word.
  void sayReady();
  void send(const wire::VerbsHeader& header, ByteSpan body = {});
  /// A one-sided transfer that nobody has allowed.
  void transfer(ibv_wr_opcode opcode, uint64_t address, uint32_t key);
  /// The next message of the server, header included; empty: none is there.
  std::vector<std::byte> receive();
  /// True once the queue pair has completed something with an error.
  bool isBroken();
  void closeSocket() { socket_.reset(); }

  /// Changes what it tells of its queue pair, before it proves that, or on the way.
  std::function<void(wire::VerbsAddress&)> change;
  std::function<void(wire::VerbsAddress&)> forge;

 private:
  void post(ibv_send_wr& request, ByteSpan bytes);
  void takeCompletions();

  const Locator server_;
  const Identity identity_;
  runtime::SystemEntropy entropy_;
  runtime::SystemClock clock_;
  std::unique_ptr<Device> device_;
  std::vector<std::byte> memory_;
  MemoryRegion region_;
  CompletionQueue completions_;
  SharedReceiveQueue receives_;
  std::unique_ptr<QueuePair> pair_;
  Descriptor socket_;
  uint32_t next_send_ = 0;
  bool is_broken_ = false;
  std::vector<std::vector<std::byte>> received_;
};

}  // namespace ramcore::transport::verbs
