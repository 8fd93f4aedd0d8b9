#include "transport/verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/mutation.h"

namespace ramcore::transport::verbs {
namespace {

constexpr uint32_t kNumberMask = 0xffffff;
constexpr uint8_t kNoBufferRetries = 7;  // for ever
constexpr uint8_t kHopsMax = 64;

}  // namespace

Outcome<std::unique_ptr<QueuePair>> QueuePair::make(const Parts& parts, const Size& size, bool lets_peer_transfer,
                                                    uint32_t first_packet) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = parts.send_completions;
  attributes.recv_cq = parts.receive_completions;
  attributes.srq = parts.receives;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = std::min(size.sends, parts.device.limits().queue_pair_sends);
  attributes.cap.max_send_sge = std::min(size.gather, parts.device.limits().gather_entries);
  attributes.cap.max_inline_data = size.inline_bytes;
  RawQueuePair pair(ibv_create_qp(parts.device.domain(), &attributes));
  // Devices refuse more inline data than they can take, and say nowhere how much that is.
  while (pair == nullptr && errno != ENOMEM && attributes.cap.max_inline_data != 0) {
    constexpr uint32_t kInlineBytesLeast = 16;
    const uint32_t half = attributes.cap.max_inline_data / 2;
    attributes.cap.max_inline_data = half >= kInlineBytesLeast ? half : 0;
    pair.reset(ibv_create_qp(parts.device.domain(), &attributes));
  }
  if (pair == nullptr) {
    const int error = errno;
    return Failure{
        error == ENOMEM ? Status::NoSpace : Status::IoError,
        "RDMA device " + parts.device.name() + " gives no queue pair: " + std::strerror(error) +
            (error == ENOMEM ? "; raise the limit of locked memory (ulimit -l), or have fewer sessions" : "")};
  }
  const Size got{std::min(attributes.cap.max_send_wr, size.sends), attributes.cap.max_send_sge,
                 attributes.cap.max_inline_data};
  std::unique_ptr<QueuePair> made(
      new QueuePair(parts.device, std::move(pair), got, lets_peer_transfer, first_packet & kNumberMask));
  if (!made->initialize()) {
    return Failure{Status::IoError,
                   "cannot set up a queue pair of " + parts.device.describe() + ": " + std::strerror(errno)};
  }
  return made;
}

bool QueuePair::initialize() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_.port();
  const bool lets_peer_transfer = lets_peer_transfer_ || RC_MUTATION("remote-access-for-clients");
  attributes.qp_access_flags = lets_peer_transfer ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE : 0;
  return ibv_modify_qp(raw(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0;
}

wire::VerbsAddress QueuePair::address(uint32_t receive_bytes) const {
  wire::VerbsAddress address{};
  std::copy(std::begin(device_.gid().raw), std::end(device_.gid().raw), address.gid.begin());
  address.queue_pair = number();
  address.first_packet = first_packet_;
  address.receive_bytes = receive_bytes;
  address.lid = device_.lid();
  address.mtu = static_cast<uint8_t>(device_.mtu());
  address.reads_max = device_.limits().reads_at_a_time;
  return address;
}

Outcome<bool> QueuePair::connect(const wire::VerbsAddress& peer, const ConnectionTiming& timing) {
  const uint8_t reads = std::min(peer.reads_max, device_.limits().reads_at_a_time);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = std::min(static_cast<ibv_mtu>(peer.mtu), device_.mtu());
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.first_packet;
  attributes.max_dest_rd_atomic = reads;
  attributes.min_rnr_timer = timing.no_buffer_timer;
  attributes.ah_attr.port_num = device_.port();
  attributes.ah_attr.dlid = peer.lid;
  attributes.ah_attr.sl = device_.serviceLevel();
  if (device_.isEthernet() || peer.lid == 0) {
    attributes.ah_attr.is_global = 1;
    std::copy(peer.gid.begin(), peer.gid.end(), std::begin(attributes.ah_attr.grh.dgid.raw));
    attributes.ah_attr.grh.sgid_index = device_.gidIndex();
    attributes.ah_attr.grh.hop_limit = kHopsMax;
    attributes.ah_attr.grh.traffic_class = device_.trafficClass();
  }
  int error = ibv_modify_qp(raw(), &attributes,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error == 0) {
    attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = first_packet_;
    attributes.timeout = timing.ack_timeout;
    attributes.retry_cnt = timing.retry_count;
    attributes.rnr_retry = kNoBufferRetries;
    attributes.max_rd_atomic = reads;
    error = ibv_modify_qp(
        raw(), &attributes,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error == 0) return true;
  return Failure{Status::IoError,
                 "cannot connect a queue pair of " + device_.describe() + ": " + std::strerror(error) +
                     "; both ends must be in one RDMA network, and their addresses routed to each other"};
}

void QueuePair::fail() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  static_cast<void>(ibv_modify_qp(raw(), &attributes, IBV_QP_STATE));
}

}  // namespace ramcore::transport::verbs
