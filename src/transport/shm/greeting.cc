#include "transport/shm/greeting.h"

#include <algorithm>

#include "transport/shm/unix_socket.h"

namespace ramcore::transport::shm {

Greeting::Greeting(HandshakeOptions handshake, uint32_t ring_bytes, int64_t deadline_ns, runtime::Entropy& entropy)
    : handshake_(std::move(handshake), entropy), ring_bytes_(ring_bytes), deadline_ns_(deadline_ns) {}

Greeting::Step Greeting::fail(Status status, std::string text, bool is_bad) {
  status_ = status;
  failure_text_ = std::move(text);
  is_bad_ = is_bad;
  return Step::Failed;
}

Greeting::Step Greeting::failEnded() {
  return fail(Status::Unreachable, "it left during the handshake", has_received_ && isServer());
}

// The socket's buffer is larger than all messages of a handshake together: if one does not fit, the peer does not read.
bool Greeting::sendOutput(int socket) {
  const ByteSpan bytes = handshake_.toSend();
  size_t sent = 0;
  if (!sendSome(socket, bytes, sent)) return false;
  handshake_.sent(sent);
  return sent == bytes.size();
}

void Greeting::start(int socket) { (void)sendOutput(socket); }

Greeting::Step Greeting::step(int socket) {
  if (handshake_.state() != Handshake::State::Done) {
    const Step step = stepHandshake(socket);
    if (step != Step::Ready) return step;
  }
  return isServer() ? offerMemory(socket) : receiveMemory(socket);
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
    const bool is_sent = sendOutput(socket);
    if (!is_sent && handshake_.state() != Handshake::State::Failed) return failEnded();
  }
  if (handshake_.state() == Handshake::State::Done) return Step::Ready;
  return fail(handshake_.status(), handshake_.failureText(), handshake_.isBad());
}

Greeting::Step Greeting::offerMemory(int socket) {
  Descriptor descriptor;
  auto memory = SharedMemory::create(ring_bytes_, descriptor);
  if (!memory.ok()) return fail(memory.status(), memory.error().message, false);
  SharedOffer offer;
  offer.ring_bytes = ring_bytes_;
  if (!sendWithDescriptor(socket, bytesOf(offer), descriptor.get())) return failEnded();
  memory_ = std::move(memory).value();
  return Step::Ready;
}

Greeting::Step Greeting::receiveMemory(int socket) {
  while (offer_bytes_ < sizeof(offer_)) {
    const MutableByteSpan rest = std::as_writable_bytes(std::span(&offer_, 1)).subspan(offer_bytes_);
    size_t count = 0;
    const StreamLook look = receiveWithDescriptor(socket, rest, count, received_descriptor_);
    if (look == StreamLook::Nothing) return Step::Pending;
    if (look == StreamLook::Ended) return failEnded();
    offer_bytes_ += count;
  }
  if (!received_descriptor_) return fail(Status::Refused, "it offered no shared memory", true);
  auto memory = SharedMemory::map(offer_, received_descriptor_);
  received_descriptor_.reset();
  if (!memory.ok()) return fail(memory.status(), memory.error().message, true);
  memory_ = std::move(memory).value();
  return Step::Ready;
}

}  // namespace ramcore::transport::shm
