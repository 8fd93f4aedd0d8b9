// Handshakes of an unknown peer, with either side: the peer never gets a session without the secret, and the answers to
// it stay within their limits.
//
// The peer's messages come from the input; the nonces are seeded, so that a corpus keeps its meaning.

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "fuzz/planted.h"
#include "transport/session/handshake.h"
#include "wire/frame.h"

namespace ramcore::transport {
namespace {

void run(ByteSpan input) {
  if (input.empty()) return;
  const auto first = static_cast<unsigned>(input[0]);
  input = input.subspan(1);
  HandshakeOptions options;
  options.side = (first & 1) != 0 ? HandshakeSide::Initiator : HandshakeSide::Acceptor;
  options.identity =
      Identity{.role = Role::Server, .id = 7, .cluster = 5, .cluster_name = "c", .secret = "the fuzzer cannot know it"};
  options.expected_id = (first & 2) != 0 ? 9 : 0;
  options.slot_count = 8;
  options.locators = {Locator::parse("tcp://127.0.0.1:1").value()};
  const size_t piece_bytes = (first >> 2) + 1;

  runtime::SeededEntropy entropy(1);
  Handshake handshake(std::move(options), entropy);
  size_t said_bytes = handshake.toSend().size();
  while (!input.empty() && handshake.state() == Handshake::State::Running) {
    RC_CHECK(handshake.wantedBytes() != 0 && handshake.wantedBytes() <= wire::kHandshakeMessageBytesMax);
    const size_t count = std::min({input.size(), piece_bytes, size_t{handshake.wantedBytes()}});
    handshake.sent(handshake.toSend().size());
    handshake.receive(input.first(count));
    said_bytes += handshake.toSend().size();
    input = input.subspan(count);
    fuzz::crashIfPlanted(!handshake.isInitiator() && (handshake.peer().id >> 8) != 0);
  }
  RC_CHECK(handshake.state() != Handshake::State::Done);
  RC_CHECK(said_bytes <= 3 * wire::kHandshakeMessageBytesMax);
  if (handshake.state() != Handshake::State::Failed) return;
  const Status status = handshake.status();
  RC_CHECK(status == Status::Refused || status == Status::WrongServerId || status == Status::Unreachable ||
           status == Status::RetryLater || status == Status::WrongCluster);
  RC_CHECK(!handshake.failureText().empty() && handshake.failureText().size() < 1000);
  for (const char c : handshake.failureText()) RC_CHECK(c >= ' ' && c < 0x7f);
}

}  // namespace
}  // namespace ramcore::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ramcore::transport::run(std::as_bytes(std::span(data, size)));
  return 0;
}
