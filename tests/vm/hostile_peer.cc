#include "vm/hostile_peer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "transport/os/stream_io.h"
#include "transport/verbs/decoding.h"
#include "transport/verbs/receive_buffers.h"

namespace ramcore::transport::verbs {
namespace {

constexpr uint32_t kBuffers = 128;
constexpr uint32_t kBufferBytes = ReceiveBuffers::kBytes;
constexpr uint32_t kSends = 256;
constexpr uint32_t kAnnouncedBytesMax = 1u << 20;
constexpr std::byte kForeign{0x66};  // what it writes where it may not

// The devices are the two ends of a cable: processes that listen use the end of the servers.
const char* deviceOf(Role role) { return std::getenv(role == Role::Server ? "RDMA_DEV0" : "RDMA_DEV1"); }

}  // namespace

HostilePeer::HostilePeer(const Identity& identity, uint32_t receive_count)
    : identity_(identity), memory_(size_t{kBuffers} * 2 * kBufferBytes) {
  const char* device = deviceOf(identity.role);
  auto opened = Device::open({.device = device == nullptr ? "" : device, .host = ""});
  RC_CHECK_MSG(opened.ok(), opened.error().message.c_str());
  device_ = std::make_unique<Device>(std::move(opened).value());
  region_ = std::move(device_->registerMemory(memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE)).value();
  completions_.reset(ibv_create_cq(device_->context(), 1024, nullptr, nullptr, 0));
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = kBuffers;
  attributes.attr.max_sge = 1;
  receives_.reset(ibv_create_srq(device_->domain(), &attributes));
  for (uint32_t i = 0; i < receive_count; ++i) postReceive(i);
}

HostilePeer::~HostilePeer() = default;

void HostilePeer::postReceive(uint64_t number) {
  ibv_sge piece{reinterpret_cast<uint64_t>(memory_.data() + number * kBufferBytes), kBufferBytes, region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = number;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(receives_.get(), &request, &refused), 0);
}

bool HostilePeer::sendAll(ByteSpan bytes) {
  size_t sent = 0;
  return sendSome(socket_.get(), bytes, sent) && sent == bytes.size();
}

bool HostilePeer::receiveAll(MutableByteSpan into, const std::function<bool()>& goes_on) {
  for (size_t done = 0; done < into.size();) {
    size_t count = 0;
    const StreamLook look = receiveSome(socket_.get(), into.subspan(done), count);
    if (look == StreamLook::Ended || (look == StreamLook::Nothing && !goes_on())) return false;
    done += count;
  }
  return true;
}

bool HostilePeer::connect(const Locator& server, const Step& step, bool says_ready) {
  HostLookup lookup;
  lookup.start(server.host, server.port);
  socket_ = startConnecting(lookup.addresses().front());
  while (connectError(socket_.get()) == EINPROGRESS) step();
  if (!meet(HandshakeSide::Initiator, step)) return false;
  if (says_ready) sayReady();
  return true;
}

Locator HostilePeer::listen() {
  Locator place = Locator::parse("verbs://127.0.0.1:0").value();
  SocketAddress bound;
  listening_ = std::move(listenAt(place, bound)).value();
  place.port = bound.port();
  locators_ = {place};
  return place;
}

bool HostilePeer::accept(const Step& step) {
  const int64_t until_ns = clock_.nowNs() + 10 * runtime::kNanosPerSecond;
  socket_.reset();
  while (!socket_ && clock_.nowNs() < until_ns) {
    SocketAddress from;
    static_cast<void>(acceptFrom(listening_.get(), socket_, from));
    step();
  }
  return socket_ && meet(HandshakeSide::Acceptor, step);
}

bool HostilePeer::meet(HandshakeSide side, const Step& step) {
  const bool is_server = side == HandshakeSide::Acceptor;
  Handshake handshake({.side = side,
                       .identity = identity_,
                       .expected_id = 0,
                       .slot_count = 8,
                       .peer_is_local = true,
                       .locators = locators_},
                      entropy_);
  const int64_t until_ns = clock_.nowNs() + 10 * runtime::kNanosPerSecond;
  const auto goesOn = [&] {
    step();
    return clock_.nowNs() < until_ns;
  };
  const auto sendOutput = [&] {
    const ByteSpan out = handshake.toSend();
    if (!sendAll(out)) return false;
    handshake.sent(out.size());
    return true;
  };
  while (handshake.state() == Handshake::State::Running) {
    if (!sendOutput()) return false;
    std::vector<std::byte> bytes(handshake.wantedBytes());
    size_t count = 0;
    const StreamLook look = receiveSome(socket_.get(), bytes, count);
    if (look == StreamLook::Ended || (look == StreamLook::Nothing && !goesOn())) return false;
    if (count != 0) handshake.receive(ByteSpan(bytes).first(count));
  }
  if (handshake.state() != Handshake::State::Done || !sendOutput()) return false;
  takeCompletions();
  received_.clear();  // of the one before it
  pair_.reset();
  auto pair =
      QueuePair::make({*device_, completions_.get(), completions_.get(), receives_.get()}, {kSends, 2, 0}, true, 1);
  if (!pair.ok()) return false;
  pair_ = std::move(pair).value();
  is_broken_ = false;
  wire::VerbsAddress own = pair_->address(kBufferBytes);
  if (change) change(own);
  own.mac = proofOf(own, is_server, handshake.sessionKey());
  if (forge) forge(own);
  wire::VerbsAddress peer{};
  const MutableByteSpan peer_bytes = std::as_writable_bytes(std::span(&peer, 1));
  if (!is_server && !sendAll(bytesOf(own))) return false;
  if (!receiveAll(peer_bytes, goesOn) || !pair_->connect(peer, {.ack_timeout = 18}).ok()) return false;
  std::byte ready{};
  return !is_server || (sendAll(bytesOf(own)) && receiveAll(MutableByteSpan(&ready, 1), goesOn));
}

void HostilePeer::sayReady() {
  const std::byte ready{'r'};
  EXPECT_TRUE(sendAll(ByteSpan(&ready, 1)));
}

void HostilePeer::post(ibv_send_wr& request, ByteSpan bytes) {
  takeCompletions();
  RC_CHECK(bytes.size() <= kBufferBytes);
  const uint64_t number = kBuffers + next_send_++ % kBuffers;
  std::byte* const at = memory_.data() + number * kBufferBytes;
  if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
  ibv_sge piece{reinterpret_cast<uint64_t>(at), static_cast<uint32_t>(bytes.size()), region_->lkey};
  request.wr_id = number;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(pair_->raw(), &request, &refused) != 0) is_broken_ = true;
}

void HostilePeer::send(const wire::VerbsHeader& header, ByteSpan body) {
  std::vector<std::byte> bytes(bytesOf(header).begin(), bytesOf(header).end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  post(request, bytes);
}

void HostilePeer::transfer(ibv_wr_opcode opcode, uint64_t address, uint32_t key, uint32_t bytes) {
  ibv_send_wr request{};
  request.opcode = opcode;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  post(request, std::vector<std::byte>(bytes, kForeign));
}

uint32_t HostilePeer::transferCount() {
  takeCompletions();
  return transfer_count_;
}

std::vector<wire::VerbsPiece> HostilePeer::announce(uint32_t bytes, uint32_t piece_count) {
  if (announced_.empty()) {
    announced_.resize(kAnnouncedBytesMax);
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    announced_region_ = std::move(device_->registerMemory(announced_.data(), announced_.size(), kAccess)).value();
  }
  std::vector<wire::VerbsPiece> pieces;
  for (uint32_t i = 0; i < piece_count; ++i) {
    const uint32_t piece_bytes = bytes / piece_count + (i == 0 ? bytes % piece_count : 0);
    RC_CHECK(piece_bytes <= kAnnouncedBytesMax);
    pieces.push_back({reinterpret_cast<uint64_t>(announced_.data()), announced_region_->rkey, piece_bytes});
  }
  return pieces;
}

void HostilePeer::takeCompletions() {
  ibv_wc completion{};
  while (ibv_poll_cq(completions_.get(), 1, &completion) == 1) {
    // Completions of a former queue pair say nothing about the present one.
    const bool is_of_old = pair_ != nullptr && completion.qp_num != pair_->number();
    if (completion.status != IBV_WC_SUCCESS) {
      if (!is_of_old) is_broken_ = true;
      continue;
    }
    const std::byte* at = memory_.data() + completion.wr_id * kBufferBytes;
    if (completion.opcode == IBV_WC_RECV) {
      received_.emplace_back(at, at + completion.byte_len);
      postReceive(completion.wr_id);
    } else if (completion.opcode == IBV_WC_RDMA_READ || completion.opcode == IBV_WC_RDMA_WRITE) {
      ++transfer_count_;
      if (completion.opcode == IBV_WC_RDMA_READ) last_read_.assign(at, at + completion.byte_len);
    }
  }
}

std::vector<std::byte> HostilePeer::receive() {
  takeCompletions();
  if (received_.empty()) return {};
  std::vector<std::byte> first = std::move(received_.front());
  received_.erase(received_.begin());
  return first;
}

bool HostilePeer::isBroken() {
  takeCompletions();
  return is_broken_;
}

}  // namespace ramcore::transport::verbs
