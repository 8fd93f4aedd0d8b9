#include "transport/verbs/greeting.h"

#include <algorithm>

#include "transport/os/stream_io.h"
#include "transport/verbs/decoding.h"

namespace ramcore::transport::verbs {
namespace {

constexpr std::byte kReadyByte{'r'};

}  // namespace

Greeting::Greeting(HandshakeOptions handshake, int64_t deadline_ns, runtime::Entropy& entropy)
    : handshake_(std::move(handshake), entropy), deadline_ns_(deadline_ns) {}

Greeting::Step Greeting::fail(Status status, std::string text, bool is_bad) {
  status_ = status;
  failure_text_ = std::move(text);
  is_bad_ = is_bad;
  return Step::Failed;
}

Greeting::Step Greeting::failEnded() {
  return fail(Status::Unreachable, "it left during the handshake", has_received_ && isServer());
}

// A socket's buffer is larger than all messages of a handshake together: if one does not fit, the peer does not read.
bool Greeting::sendAll(int socket, ByteSpan bytes) {
  size_t sent = 0;
  return sendSome(socket, bytes, sent) && sent == bytes.size();
}

bool Greeting::sendOutput(int socket) {
  const ByteSpan bytes = handshake_.toSend();
  if (bytes.empty()) return true;
  if (!sendAll(socket, bytes)) return false;
  handshake_.sent(bytes.size());
  return true;
}

void Greeting::start(int socket) { static_cast<void>(sendOutput(socket)); }

Greeting::Step Greeting::step(int socket, const ConnectionTiming& timing) {
  if (phase_ == Phase::Handshake) {
    const Step step = stepHandshake(socket);
    if (step != Step::Ready) return step;
    phase_ = Phase::Pair;
  }
  if (phase_ == Phase::Pair) {
    if (pair_ == nullptr) return Step::WantsPair;
    // The acceptor sends its own address later, when its queue pair is ready to receive.
    if (!isServer() && !sendAll(socket, bytesOf(own_address_))) return failEnded();
    phase_ = Phase::Address;
  }
  if (phase_ == Phase::Address) {
    const Step step = receiveAddress(socket, timing);
    if (step != Step::Ready) return step;
    const bool is_sent =
        isServer() ? sendAll(socket, bytesOf(own_address_)) : sendAll(socket, ByteSpan(&kReadyByte, 1));
    if (!is_sent) return failEnded();
    received_bytes_ = 0;
    phase_ = Phase::Ready;
  }
  return isServer() ? receiveReady(socket) : Step::Ready;
}

void Greeting::setPair(std::unique_ptr<QueuePair> pair, uint32_t receive_bytes) {
  pair_ = std::move(pair);
  own_address_ = pair_->address(receive_bytes);
  own_address_.mac = proofOf(own_address_, isServer(), handshake_.sessionKey());
}

Greeting::Step Greeting::stepHandshake(int socket) {
  while (handshake_.state() == Handshake::State::Running) {
    std::byte bytes[wire::kHandshakeMessageBytesMax];
    const size_t wanted = std::min<size_t>(handshake_.wantedBytes(), sizeof(bytes));
    size_t count = 0;
    switch (receiveSome(socket, MutableByteSpan(bytes, wanted), count)) {
      case StreamLook::Nothing:
        return Step::Pending;
      case StreamLook::Ended:
        return failEnded();
      case StreamLook::Bytes:
        has_received_ = true;
        handshake_.receive(ByteSpan(bytes, count));
        break;
    }
    if (!sendOutput(socket) && handshake_.state() != Handshake::State::Failed) return failEnded();
  }
  if (handshake_.state() == Handshake::State::Done) return Step::Ready;
  return fail(handshake_.status(), handshake_.failureText(), handshake_.isBad());
}

Greeting::Step Greeting::receive(int socket, MutableByteSpan into) {
  while (received_bytes_ < into.size()) {
    size_t count = 0;
    const StreamLook look = receiveSome(socket, into.subspan(received_bytes_), count);
    if (look == StreamLook::Nothing) return Step::Pending;
    if (look == StreamLook::Ended) return failEnded();
    received_bytes_ += count;
  }
  return Step::Ready;
}

Greeting::Step Greeting::receiveAddress(int socket, const ConnectionTiming& timing) {
  const Step step = receive(socket, std::as_writable_bytes(std::span(&peer_address_, 1)));
  if (step != Step::Ready) return step;
  const std::string_view why_not = checkAddress(peer_address_, !isServer(), handshake_.sessionKey());
  if (!why_not.empty()) return fail(Status::Refused, std::string(why_not), true);
  const auto connected = pair_->connect(peer_address_, timing);
  return connected.ok() ? Step::Ready : fail(Status::IoError, connected.error().message, false);
}

Greeting::Step Greeting::receiveReady(int socket) {
  std::byte ready{};
  const Step step = receive(socket, MutableByteSpan(&ready, 1));
  if (step != Step::Ready || ready == kReadyByte) return step;
  return fail(Status::Refused, "it did not say that it is ready", true);
}

}  // namespace ramcore::transport::verbs
