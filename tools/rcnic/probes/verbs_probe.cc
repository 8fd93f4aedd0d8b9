#include "tools/rcnic/probes/verbs_probe.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tools/rcnic/probes/transmit_buffers.h"
#include "tools/rcnic/probes/verbs_receiver.h"
#include "transport/registry/registry.h"

namespace ramcore::rcnic {
namespace {

namespace verbs = transport::verbs;

constexpr uint32_t kMessageBytes = 64 * 1024;
constexpr uint32_t kSendsMax = 128;
constexpr uint32_t kEntriesMax = 33;  // as the product: a head and 32 chunks
// The inline lengths that a device is asked for, the longest first: devices refuse what they cannot do instead of
// giving less.
constexpr std::array<uint32_t, 9> kInlineBytes = {4096, 2048, 1024, 956, 912, 512, 256, 128, 64};
// Software devices on a busy machine answer late.
constexpr verbs::ConnectionTiming kTiming = {.ack_timeout = 18};

Outcome<verbs::DeviceChoice> choiceOf(const std::string& text) {
  if (text.empty()) return verbs::DeviceChoice{};
  auto parsed = transport::VerbsDeviceChoice::parse(text);
  if (!parsed.ok()) return std::move(parsed).error();
  return verbs::DeviceChoice{
      .device = parsed->device, .port = parsed->port, .gid_index = parsed->gid_index, .host = {}};
}

class VerbsProbe final : public Probe {
 public:
  static Outcome<std::unique_ptr<Probe>> open(const ProbeChoice& choice) {
    const auto mine = choiceOf(choice.device);
    if (!mine.ok()) return mine.error();
    const auto its = choiceOf(choice.peer_device.empty() ? choice.device : choice.peer_device);
    if (!its.ok()) return its.error();
    auto device = verbs::Device::open(*mine);
    if (!device.ok()) return std::move(device).error();
    auto receiver = VerbsReceiver::open(*its, kMessageBytes);
    if (!receiver.ok()) return std::move(receiver).error();
    std::unique_ptr<VerbsProbe> probe(new VerbsProbe(std::move(device).value(), std::move(receiver).value()));
    auto prepared = probe->prepare();
    if (!prepared.ok()) return std::move(prepared).error();
    return std::unique_ptr<Probe>(std::move(probe));
  }

  const ProbeTraits& traits() const override { return traits_; }

  Outcome<bool> useMemory(std::span<std::byte> memory) override {
    records_region_.reset();
    auto region = device_.registerMemory(memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    if (!region.ok()) return std::move(region).error();
    records_region_ = std::move(region).value();
    return true;
  }

  Outcome<bool> post(const Transmission& transmission) override {
    if (posted_ - completed_ == sends_) return false;
    std::array<ibv_sge, kEntriesMax> entries;
    uint32_t count = 0;
    if (transmission.mode == Mode::CopyOut) {
      const Piece copied = buffers_.fill(posted_ % sends_, transmission.pieces);
      entries[count++] = {reinterpret_cast<uint64_t>(copied.address), copied.bytes, buffers_region_->lkey};
    } else {
      for (const Piece& piece : transmission.pieces) {
        entries[count++] = {reinterpret_cast<uint64_t>(piece.address), piece.bytes, records_region_->lkey};
      }
    }
    ibv_send_wr request{};
    request.wr_id = posted_;
    request.sg_list = entries.data();
    request.num_sge = static_cast<int>(count);
    if (transmission.is_signalled) request.send_flags |= IBV_SEND_SIGNALED;
    if (transmission.mode == Mode::Inline) request.send_flags |= IBV_SEND_INLINE;
    address(transmission.operation, request);
    ibv_send_wr* failed = nullptr;
    const int error = ibv_post_send(pair_->raw(), &request, &failed);
    if (error == ENOMEM) return false;
    if (error != 0) {
      return Failure{Status::IoError, "RDMA device " + device_.name() + " refuses a " +
                                          std::string(nameOf(transmission.operation)) + " of " + std::to_string(count) +
                                          " entries: " + std::strerror(error) + "; ibv_devinfo -v tells its limits"};
    }
    ++posted_;
    return true;
  }

  Outcome<uint32_t> reap() override {
    std::array<ibv_wc, 16> done;
    const int count = ibv_poll_cq(completions_.get(), static_cast<int>(done.size()), done.data());
    const uint32_t before = completed_;
    for (int i = 0; i < count; ++i) {
      const ibv_wc& one = done[static_cast<size_t>(i)];
      if (one.status != IBV_WC_SUCCESS) {
        return Failure{Status::IoError, "the queue pair of RDMA device " + device_.name() +
                                            " broke: " + ibv_wc_status_str(one.status) +
                                            "; sender and receiver must be in one RDMA network (--device, "
                                            "--peer-device)"};
      }
      completed_ = static_cast<uint32_t>(one.wr_id) + 1;  // they come in the order of posting
    }
    return completed_ - before;
  }

  uint32_t outstanding() const override { return posted_ - completed_; }
  uint64_t copyCycles() const override { return buffers_.copyCycles(); }

 private:
  VerbsProbe(verbs::Device device, std::unique_ptr<VerbsReceiver> receiver)
      : device_(std::move(device)),
        receiver_(std::move(receiver)),
        sends_(std::min(kSendsMax, device_.limits().queue_pair_sends)),
        buffers_(sends_, kMessageBytes) {}

  Outcome<bool> prepare() {
    auto region = device_.registerMemory(buffers_.memory().data(), buffers_.memory().size(), IBV_ACCESS_LOCAL_WRITE);
    if (!region.ok()) return std::move(region).error();
    buffers_region_ = std::move(region).value();
    completions_.reset(ibv_create_cq(device_.context(), static_cast<int>(sends_) + 1, nullptr, nullptr, 0));
    ibv_srq_init_attr attributes{};
    attributes.attr.max_wr = 1;
    attributes.attr.max_sge = 1;
    receives_.reset(ibv_create_srq(device_.domain(), &attributes));
    if (completions_ == nullptr || receives_ == nullptr) {
      return Failure{Status::IoError, "RDMA device " + device_.name() + " gives the sender no queues: " +
                                          std::strerror(errno) + "; ibv_devinfo -v tells its limits"};
    }
    auto made = makePair();
    if (!made.ok()) return made;
    auto there = receiver_->connect(pair_->address(0), kTiming);
    if (!there.ok()) return there;
    auto here = pair_->connect(receiver_->address(), kTiming);
    if (!here.ok()) return here;
    const bool is_software = device_.limits().is_software || receiver_->device().limits().is_software;
    traits_.subject = {.transport = "verbs", .device = device_.name(), .is_software = is_software};
    traits_.operations = {Operation::Send, Operation::Write, Operation::Read};
    traits_.pieces_max = std::min(pair_->size().gather, kEntriesMax);
    traits_.inline_bytes_max = std::min(pair_->size().inline_bytes, kMessageBytes);
    traits_.message_bytes_max = kMessageBytes;
    traits_.outstanding_max = sends_;
    traits_.has_selective_signals = true;
    return true;
  }

  // Makes the queue pair, with as many bytes inside a descriptor as the device takes.
  Outcome<bool> makePair() {
    for (const uint32_t inline_bytes : kInlineBytes) {
      auto pair = verbs::QueuePair::make({.device = device_,
                                          .send_completions = completions_.get(),
                                          .receive_completions = completions_.get(),
                                          .receives = receives_.get()},
                                         {.sends = sends_, .gather = kEntriesMax, .inline_bytes = inline_bytes},
                                         /*lets_peer_transfer=*/false, 1);
      if (!pair.ok()) return std::move(pair).error();
      pair_ = std::move(pair).value();
      if (pair_->size().inline_bytes != 0) return true;
    }
    return true;  // a device that takes none
  }

  void address(Operation operation, ibv_send_wr& request) const {
    request.opcode = operation == Operation::Send    ? IBV_WR_SEND
                     : operation == Operation::Write ? IBV_WR_RDMA_WRITE
                                                     : IBV_WR_RDMA_READ;
    if (operation == Operation::Send) return;
    request.wr.rdma.remote_addr = receiver_->place(posted_ % VerbsReceiver::kPlaces);
    request.wr.rdma.rkey = receiver_->placesKey();
  }

  // Members are destroyed from the last to the first: the queue pair, then what it reads and writes.
  verbs::Device device_;
  std::unique_ptr<VerbsReceiver> receiver_;
  const uint32_t sends_;
  TransmitBuffers buffers_;
  verbs::MemoryRegion buffers_region_;
  verbs::MemoryRegion records_region_;
  verbs::CompletionQueue completions_;
  verbs::SharedReceiveQueue receives_;
  std::unique_ptr<verbs::QueuePair> pair_;
  ProbeTraits traits_;
  uint32_t posted_ = 0;  // positions count requests, and wrap
  uint32_t completed_ = 0;
};

}  // namespace

Outcome<std::unique_ptr<Probe>> openVerbsProbe(const ProbeChoice& choice) { return VerbsProbe::open(choice); }

TransportListing listVerbs() {
  TransportListing listing{.transport = "verbs", .devices = {}, .absence = {}};
  for (const std::string& name : verbs::Device::names()) {
    auto device = verbs::Device::open({.device = name, .port = 0, .gid_index = -1, .host = {}});
    if (!device.ok()) {
      listing.devices.push_back({name, device.error().message, true});
      continue;
    }
    const verbs::Device::Limits& limits = device->limits();
    listing.devices.push_back({name,
                               device->describe() + ", " + std::to_string(limits.gather_entries) + " gather entries, " +
                                   std::to_string(limits.queue_pair_sends) + " work requests in a queue pair",
                               device->limits().is_software});
  }
  if (listing.devices.empty()) {
    const auto why = verbs::Device::open({});
    listing.absence = why.ok() ? "its device has just appeared; ask again" : why.error().message;
  }
  return listing;
}

}  // namespace ramcore::rcnic
