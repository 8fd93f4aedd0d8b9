#include "tools/rcnic/probes/verbs_receiver.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "tools/rcnic/probes/processors.h"

namespace ramcore::rcnic {
namespace {

namespace verbs = transport::verbs;

Failure receiverFailure(const verbs::Device& device, const std::string& what) {
  return Failure{Status::IoError, "RDMA device " + device.name() + " gives the receiver no " + what + ": " +
                                      std::strerror(errno) + "; ibv_devinfo -v tells its limits"};
}

}  // namespace

VerbsReceiver::VerbsReceiver(verbs::Device device, uint32_t bytes_each)
    : device_(std::move(device)),
      bytes_each_(bytes_each),
      buffers_(std::make_unique<std::byte[]>(size_t{kBuffers} * bytes_each)),
      places_(std::make_unique<std::byte[]>(size_t{kPlaces} * bytes_each)) {}

Outcome<std::unique_ptr<VerbsReceiver>> VerbsReceiver::open(const verbs::DeviceChoice& choice, uint32_t bytes_each) {
  auto device = verbs::Device::open(choice);
  if (!device.ok()) return std::move(device).error();
  std::unique_ptr<VerbsReceiver> receiver(new VerbsReceiver(std::move(device).value(), bytes_each));
  auto prepared = receiver->prepare();
  if (!prepared.ok()) return std::move(prepared).error();
  return receiver;
}

Outcome<bool> VerbsReceiver::prepare() {
  auto buffers = device_.registerMemory(buffers_.get(), size_t{kBuffers} * bytes_each_, IBV_ACCESS_LOCAL_WRITE);
  if (!buffers.ok()) return std::move(buffers).error();
  buffers_region_ = std::move(buffers).value();
  auto places = device_.registerMemory(places_.get(), size_t{kPlaces} * bytes_each_,
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  if (!places.ok()) return std::move(places).error();
  places_region_ = std::move(places).value();
  completions_.reset(ibv_create_cq(device_.context(), kBuffers, nullptr, nullptr, 0));
  if (completions_ == nullptr) return receiverFailure(device_, "completion queue");
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = kBuffers;
  attributes.attr.max_sge = 1;
  receives_.reset(ibv_create_srq(device_.domain(), &attributes));
  if (receives_ == nullptr) return receiverFailure(device_, "shared receive queue");
  for (uint32_t i = 0; i < kBuffers; ++i) {
    if (!postBuffer(i)) return receiverFailure(device_, "receive buffer");
  }
  auto pair = verbs::QueuePair::make({.device = device_,
                                      .send_completions = completions_.get(),
                                      .receive_completions = completions_.get(),
                                      .receives = receives_.get()},
                                     {.sends = 1, .gather = 1, .inline_bytes = 0}, /*lets_peer_transfer=*/true, 1);
  if (!pair.ok()) return std::move(pair).error();
  pair_ = std::move(pair).value();
  return true;
}

Outcome<bool> VerbsReceiver::connect(const wire::VerbsAddress& peer, const verbs::ConnectionTiming& timing) {
  auto connected = pair_->connect(peer, timing);
  if (connected.ok()) thread_ = std::thread([this] { run(); });
  return connected;
}

VerbsReceiver::~VerbsReceiver() {
  stops_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

bool VerbsReceiver::postBuffer(uint32_t index) {
  ibv_sge piece{reinterpret_cast<uint64_t>(buffers_.get()) + size_t{index} * bytes_each_, bytes_each_,
                buffers_region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = index;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* failed = nullptr;
  return ibv_post_srq_recv(receives_.get(), &request, &failed) == 0;
}

void VerbsReceiver::run() {
  pinReceiver();
  std::array<ibv_wc, 32> done;
  while (!stops_.load(std::memory_order_relaxed)) {
    const int count = ibv_poll_cq(completions_.get(), static_cast<int>(done.size()), done.data());
    for (int i = 0; i < count; ++i) {
      // A missing buffer or a broken queue pair needs no handling here: the sender's completions tell of it.
      if (done[static_cast<size_t>(i)].status == IBV_WC_SUCCESS) {
        static_cast<void>(postBuffer(static_cast<uint32_t>(done[static_cast<size_t>(i)].wr_id)));
      }
    }
  }
}

}  // namespace ramcore::rcnic
