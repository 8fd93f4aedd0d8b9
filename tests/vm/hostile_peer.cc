#include "vm/hostile_peer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "transport/stream_io.h"
#include "transport/verbs/decoding.h"
#include "transport/verbs/receive_buffers.h"

namespace ramcore::transport::verbs {
namespace {

constexpr uint32_t kBuffers = 128;
constexpr uint32_t kBufferBytes = ReceiveBuffers::kBytes;
constexpr uint32_t kSends = 256;

}  // namespace

HostilePeer::HostilePeer(const Locator& server, const Identity& identity, uint32_t receive_count)
    : server_(server), identity_(identity), memory_(size_t{kBuffers} * 2 * kBufferBytes) {
  const char* device = std::getenv("RDMA_DEV1");
  auto opened = Device::open({.device = device == nullptr ? "" : device, .host = ""});
  RC_CHECK_MSG(opened.ok(), opened.error().message.c_str());
  device_ = std::make_unique<Device>(std::move(opened).value());
  region_ = std::move(device_->registerMemory(memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE)).value();
  completions_.reset(ibv_create_cq(device_->context(), 1024, nullptr, nullptr, 0));
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = kBuffers;
  attributes.attr.max_sge = 1;
  receives_.reset(ibv_create_srq(device_->domain(), &attributes));
  for (uint32_t i = 0; i < receive_count; ++i) {
    ibv_sge piece{reinterpret_cast<uint64_t>(memory_.data() + size_t{i} * kBufferBytes), kBufferBytes, region_->lkey};
    ibv_recv_wr request{};
    request.wr_id = i;
    request.sg_list = &piece;
    request.num_sge = 1;
    ibv_recv_wr* refused = nullptr;
    EXPECT_EQ(ibv_post_srq_recv(receives_.get(), &request, &refused), 0);
  }
}

HostilePeer::~HostilePeer() = default;

bool HostilePeer::connect(const std::function<void()>& step, bool says_ready) {
  HostLookup lookup;
  lookup.start(server_.host, server_.port);
  socket_ = startConnecting(lookup.addresses().front());
  Handshake handshake({.side = HandshakeSide::Initiator,
                       .identity = identity_,
                       .expected_id = 0,
                       .slot_count = 8,
                       .peer_is_local = true,
                       .locators = {}},
                      entropy_);
  const int64_t until_ns = clock_.nowNs() + 10 * runtime::kNanosPerSecond;
  const auto goesOn = [&] {
    step();
    return clock_.nowNs() < until_ns;
  };
  while (connectError(socket_.get()) == EINPROGRESS && goesOn()) {
  }
  const auto sendAll = [&](ByteSpan bytes) {
    size_t sent = 0;
    return sendSome(socket_.get(), bytes, sent) && sent == bytes.size();
  };
  const auto receiveAll = [&](MutableByteSpan into) {
    for (size_t done = 0; done < into.size();) {
      size_t count = 0;
      const StreamLook look = receiveSome(socket_.get(), into.subspan(done), count);
      if (look == StreamLook::Ended || (look == StreamLook::Nothing && !goesOn())) return false;
      done += count;
    }
    return true;
  };
  while (handshake.state() == Handshake::State::Running) {
    const ByteSpan out = handshake.toSend();
    if (!sendAll(out)) return false;
    handshake.sent(out.size());
    std::vector<std::byte> bytes(handshake.wantedBytes());
    size_t count = 0;
    const StreamLook look = receiveSome(socket_.get(), bytes, count);
    if (look == StreamLook::Ended || (look == StreamLook::Nothing && !goesOn())) return false;
    if (count != 0) handshake.receive(ByteSpan(bytes).first(count));
  }
  if (handshake.state() != Handshake::State::Done) return false;
  auto pair =
      QueuePair::make({*device_, completions_.get(), completions_.get(), receives_.get()}, {kSends, 2, 0}, false, 1);
  if (!pair.ok()) return false;
  pair_ = std::move(pair).value();
  wire::VerbsAddress own = pair_->address(kBufferBytes);
  if (change) change(own);
  own.mac = proofOf(own, false, handshake.sessionKey());
  if (forge) forge(own);
  wire::VerbsAddress peer{};
  if (!sendAll(bytesOf(own)) || !receiveAll(std::as_writable_bytes(std::span(&peer, 1)))) return false;
  if (!pair_->connect(peer, {.ack_timeout = 18}).ok()) return false;
  if (says_ready) sayReady();
  return true;
}

void HostilePeer::sayReady() {
  const std::byte ready{'r'};
  size_t sent = 0;
  EXPECT_TRUE(sendSome(socket_.get(), ByteSpan(&ready, 1), sent));
}

void HostilePeer::post(ibv_send_wr& request, ByteSpan bytes) {
  takeCompletions();
  std::byte* const at = memory_.data() + size_t{kBuffers + next_send_++ % kBuffers} * kBufferBytes;
  if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
  ibv_sge piece{reinterpret_cast<uint64_t>(at), static_cast<uint32_t>(bytes.size()), region_->lkey};
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

void HostilePeer::transfer(ibv_wr_opcode opcode, uint64_t address, uint32_t key) {
  ibv_send_wr request{};
  request.opcode = opcode;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  post(request, std::vector<std::byte>(64));
}

void HostilePeer::takeCompletions() {
  ibv_wc completion{};
  while (ibv_poll_cq(completions_.get(), 1, &completion) == 1) {
    if (completion.status != IBV_WC_SUCCESS) {
      is_broken_ = true;
    } else if (completion.opcode == IBV_WC_RECV) {
      const std::byte* at = memory_.data() + completion.wr_id * kBufferBytes;
      received_.emplace_back(at, at + completion.byte_len);
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
