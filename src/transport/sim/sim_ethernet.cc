#include "transport/sim/sim_ethernet.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ramcore::transport {
namespace {

constexpr uint32_t kPiecesMax = 16;

}  // namespace

SimEthernet::SimEthernet(runtime::SimScheduler& scheduler, const Options& options)
    : scheduler_(scheduler), options_(options), random_(scheduler.stream("ethernet")) {}

SimEthernet::~SimEthernet() { RC_CHECK_MSG(ports_.empty(), "a port outlived its switch"); }

void SimEthernet::carry(const datagram::MacAddress& from, std::vector<std::byte> bytes) {
  scheduler_.mix(bytes);
  datagram::MacAddress to;
  std::memcpy(to.bytes.data(), bytes.data(), to.bytes.size());
  ++counts_.sent;
  if (blocks_ && blocks_(from, to)) {
    ++counts_.blocked;
    return;
  }
  if (rates_.isNothing()) return launch(from, to, std::move(bytes), 0);
  if (random_.chance(rates_.loss)) {
    ++counts_.lost;
    return;
  }
  if (random_.chance(rates_.duplicate)) {
    ++counts_.duplicated;
    const bool is_late = copy_ns_max_ > 0 && random_.chance(0.5);
    launch(from, to, bytes,
           is_late ? static_cast<int64_t>(random_.below(static_cast<uint64_t>(copy_ns_max_))) : drawExtraNs());
  }
  if (random_.chance(rates_.corrupt)) {
    ++counts_.corrupted;
    bytes[random_.below(bytes.size())] ^= std::byte(1u << random_.below(8));
  }
  launch(from, to, std::move(bytes), drawExtraNs());
}

// Draws the time by which a frame comes later than others that are sent now.
int64_t SimEthernet::drawExtraNs() {
  if (rates_.delay_ns_max <= 0 || !random_.chance(rates_.reorder)) return 0;
  ++counts_.delayed;
  return static_cast<int64_t>(random_.below(static_cast<uint64_t>(rates_.delay_ns_max)));
}

SimEthernetPort* SimEthernet::portOf(const datagram::MacAddress& address) {
  const auto found = ports_.find(address);
  return found != ports_.end() ? found->second : nullptr;
}

void SimEthernet::launch(const datagram::MacAddress& from, const datagram::MacAddress& to, std::vector<std::byte> bytes,
                         int64_t extra_ns) {
  const auto delay_ns = extra_ns + static_cast<int64_t>(random_.between(static_cast<uint64_t>(options_.delay_ns_min),
                                                                        static_cast<uint64_t>(options_.delay_ns_max)));
  scheduler_.call(scheduler_.nowNs() + delay_ns, [this, from, to, frame = std::move(bytes)] {
    for (const auto& [address, port] : ports_) {
      if (address == to || (to.isBroadcast() && address != from)) port->arrive(frame);
    }
  });
}

SimEthernetPort::SimEthernetPort(SimEthernet& network, const datagram::MacAddress& address, std::function<void()> wake)
    : network_(network), wake_(std::move(wake)) {
  facts_.address = address;
  facts_.frame_bytes_max = network.options_.frame_bytes_max;
  facts_.pieces_max = kPiecesMax;
  facts_.is_local = true;
  facts_.has_wakeups = true;
  const bool is_new = network_.ports_.emplace(address, this).second;
  RC_CHECK_MSG(is_new, "two ports of one address");
}

SimEthernetPort::~SimEthernetPort() {
  leave();
  stop();
  *is_alive_ = false;
}

void SimEthernetPort::stop() {
  is_stopped_ = true;
  while (!sending_.empty()) transmit();
  for (datagram::FrameOwner* owner : std::exchange(gone_, {})) owner->onPieceGone();
}

void SimEthernetPort::silence() {
  is_silent_ = true;
  arrived_.clear();
  leave();
}

void SimEthernetPort::leave() {
  const auto found = network_.ports_.find(facts_.address);
  if (found != network_.ports_.end() && found->second == this) network_.ports_.erase(found);
}

void SimEthernetPort::arrive(const std::vector<std::byte>& bytes) {
  if (is_silent_ || arrived_.size() >= network_.options_.queue_frames) return;
  arrived_.push_back(bytes);
  if (wake_) wake_();
}

uint32_t SimEthernetPort::receive(std::span<datagram::InFrame> into) {
  for (datagram::FrameOwner* owner : std::exchange(gone_, {})) owner->onPieceGone();
  uint32_t count = 0;
  while (takes_ && count < into.size() && !arrived_.empty()) {
    const std::vector<std::byte>& bytes = arrived_.front();
    auto* const copy = new std::byte[bytes.size()];
    std::ranges::copy(bytes, copy);
    into[count++] = {copy, static_cast<uint32_t>(bytes.size()), copy};
    arrived_.pop_front();
  }
  return count;
}

void SimEthernetPort::release(const datagram::InFrame& frame) noexcept {
  delete[] static_cast<std::byte*>(frame.handle);
}

datagram::OutFrame SimEthernetPort::make(uint32_t bytes, std::byte*& at) {
  if (made_ >= 2 * network_.options_.ring_frames) return {};
  ++made_;
  auto out = std::make_unique<Out>();
  const datagram::OutFrame frame{out.release()};
  at = extend(frame, bytes);
  return frame;
}

std::byte* SimEthernetPort::extend(datagram::OutFrame frame, uint32_t bytes) {
  Out& out = *static_cast<Out*>(frame.handle);
  RC_CHECK(out.pieces.size() < kPiecesMax);
  Piece piece{.own = std::make_unique<std::byte[]>(bytes), .at = nullptr, .bytes = bytes, .owner = nullptr};
  piece.at = piece.own.get();
  out.pieces.push_back(std::move(piece));
  return out.pieces.back().own.get();
}

bool SimEthernetPort::attach(datagram::OutFrame frame, const std::byte* at, uint32_t bytes, RegionId region,
                             datagram::FrameOwner& owner) {
  RC_CHECK(canAttach(region));
  Out& out = *static_cast<Out*>(frame.handle);
  RC_CHECK(out.pieces.size() < kPiecesMax);
  out.pieces.push_back({.own = nullptr, .at = at, .bytes = bytes, .owner = &owner});
  return true;
}

void SimEthernetPort::drop(datagram::OutFrame frame) noexcept {
  const std::unique_ptr<Out> out(static_cast<Out*>(frame.handle));
  --made_;
  for (const Piece& piece : out->pieces) {
    if (piece.owner != nullptr) piece.owner->onPieceGone();
  }
}

uint32_t SimEthernetPort::send(std::span<const datagram::OutFrame> frames) {
  uint32_t taken = 0;
  if (is_stopped_) return 0;
  for (const datagram::OutFrame frame : frames) {
    if (sending_.size() >= network_.options_.ring_frames) break;
    ++taken;
    sending_.emplace_back(static_cast<Out*>(frame.handle));
    const auto read_ns =
        static_cast<int64_t>(network_.random_.below(static_cast<uint64_t>(network_.options_.read_ns_max)));
    last_read_ns_ = std::max(last_read_ns_ + 1, network_.scheduler_.nowNs() + read_ns);
    network_.scheduler_.call(last_read_ns_, [this, is_alive = is_alive_] {
      if (*is_alive && !sending_.empty()) transmit();
    });
  }
  return taken;
}

// The hardware reads the oldest frame: the bytes as they are at this moment.
void SimEthernetPort::transmit() {
  const std::unique_ptr<Out> out = std::move(sending_.front());
  sending_.pop_front();
  --made_;
  std::vector<std::byte> bytes;
  for (const Piece& piece : out->pieces) {
    bytes.insert(bytes.end(), piece.at, piece.at + piece.bytes);
    if (piece.owner != nullptr) gone_.push_back(piece.owner);
  }
  RC_CHECK(bytes.size() <= facts_.frame_bytes_max);
  if (!is_silent_) network_.carry(facts_.address, std::move(bytes));
}

}  // namespace ramcore::transport
