#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "log/log.h"

namespace ramcore::log {

/// Keeps copies in this process, and reports what the test tells it to.
class CopyingReplicator final : public Replicator {
 public:
  struct Replica {
    std::vector<std::byte> bytes;
    bool opened = false;
    bool closed = false;
    bool operator==(const Replica&) const = default;
  };

  std::function<void()> before_open;  ///< called once before the next open(), as if by another thread

  void attach(ReplicationEvents& events) override { events_ = &events; }
  void open(const Segment& segment) override {
    if (before_open) std::exchange(before_open, nullptr)();
    order_.push_back("open " + std::to_string(segment.id().value));
    if (segment.kind() == SegmentKind::Head && !hasPlaceForHead()) {
      stuck_ = &segment;
      is_short_ = true;
      return;
    }
    EXPECT_LT(replicas_.size(), places_) << "what is kept for others is not enough";
    is_short_ = is_short_ && segment.kind() != SegmentKind::Head;
    beginCopy(segment);
  }
  void withdraw(SegmentId head) override {
    order_.push_back("withdraw " + std::to_string(head.value));
    if (std::erase(pending_opens_, head) != 0) {
      replicas_.erase(head);
      events_->segmentWithdrawn(head);
      return;
    }
    if (stuck_ == nullptr || stuck_->id() != head) return;
    stuck_ = nullptr;
    events_->segmentWithdrawn(head);
  }
  bool isShortOfPlaces() const override { return is_short_; }
  void setShort(bool is_short) { is_short_ = is_short; }
  /// Sets how many segments find a place. Heads, except small ones, leave some of the places to others.
  void setPlaces(size_t count) { places_ = count; }
  void advance(const Segment& segment) override {
    pending_advances_[segment.id()] = &segment;
    if (automatic_) deliver();
  }
  void requestFlush(LogPosition position) override {
    order_.push_back("flush " + std::to_string(position.segment.value));
    wanted_flushes_.push_back(position);
    if (automatic_) deliver();
  }
  void close(const Segment& segment) override {
    pending_closes_.push_back(&segment);
    order_.push_back("close " + std::to_string(segment.id().value));
    if (automatic_) deliver();
  }
  void moved(const Segment& segment) override {
    order_.push_back("moved " + std::to_string(segment.id().value));
    std::vector<std::byte>& bytes = made_again_[segment.id()];
    bytes.resize(segment.committedBytes());
    segment.copyOut(0, segment.committedBytes(), bytes.data());
  }
  void free(SegmentId segment) override {
    made_again_.erase(segment);
    order_.push_back("free " + std::to_string(segment.value));
    replicas_.erase(segment);
    std::erase_if(pending_closes_, [segment](const Segment* closing) { return closing->id() == segment; });
    pending_advances_.erase(segment);
    std::erase(pending_opens_, segment);
    if (stuck_ == nullptr || !hasPlaceForHead()) return;
    is_short_ = false;
    beginCopy(*std::exchange(stuck_, nullptr));
  }

  /// Above 75 the cleaner combines and does not compact; from 90 on it begins passes for the sake of storage.
  void setStoragePercent(uint32_t percent) { storage_percent_ = percent; }
  uint32_t storagePercent() const override { return storage_percent_; }
  /// From now on everything is reported at once, or only by deliver*().
  void setAutomatic(bool automatic) { automatic_ = automatic; }
  void deliverOpens() {
    auto opens = std::exchange(pending_opens_, {});
    for (SegmentId id : opens) {
      replicas_[id].opened = true;
      events_->segmentOpened(id);
    }
  }
  void deliverAdvances() {
    auto advances = std::exchange(pending_advances_, {});
    for (auto [id, segment] : advances) {
      if (segment->id() != id) continue;
      copy(*segment);
      events_->segmentDurable(id, static_cast<uint32_t>(replicas_[id].bytes.size()));
    }
  }
  /// Reports the flushes that were requested, as far as the bytes are copied.
  void deliverFlushes() {
    auto flushes = std::exchange(wanted_flushes_, {});
    for (const LogPosition wanted : flushes) {
      const auto replica = replicas_.find(wanted.segment);
      if (replica == replicas_.end()) continue;
      events_->segmentFlushed(
          wanted.segment, std::min<uint32_t>(wanted.offset_bytes, static_cast<uint32_t>(replica->second.bytes.size())));
    }
  }
  const std::vector<LogPosition>& wantedFlushes() const { return wanted_flushes_; }
  void deliverCloses() {
    auto closes = std::exchange(pending_closes_, {});
    for (const Segment* segment : closes) {
      const SegmentId id = segment->id();
      copy(*segment);
      replicas_[id].closed = true;
      events_->segmentClosed(id);
    }
  }
  void deliver() {
    if (delivering_) return;
    delivering_ = true;
    while (!pending_opens_.empty() || !pending_advances_.empty() || !pending_closes_.empty() ||
           !wanted_flushes_.empty()) {
      deliverOpens();
      deliverAdvances();
      deliverFlushes();
      deliverCloses();
    }
    delivering_ = false;
  }
  const std::map<SegmentId, Replica>& replicas() const { return replicas_; }
  /// Replicas as a recovery may find them if some were lost and made again: for each compacted segment of which
  /// `is_lost` is true, the replica that was made of its new memory.
  template <typename IsLost>
  std::map<SegmentId, Replica> replicasMadeAgain(IsLost&& is_lost) const {
    std::map<SegmentId, Replica> replicas = replicas_;
    for (const auto& [id, bytes] : made_again_) {
      if (is_lost(id)) replicas.at(id).bytes = bytes;
    }
    return replicas;
  }
  const std::vector<std::string>& order() const { return order_; }

 private:
  static constexpr size_t kPlacesApart = 8;
  bool hasPlaceForHead() const { return replicas_.size() + kPlacesApart < places_; }
  void beginCopy(const Segment& segment) {
    copy(segment);
    pending_opens_.push_back(segment.id());
    if (automatic_) deliver();
  }
  void copy(const Segment& segment) {
    auto& bytes = replicas_[segment.id()].bytes;
    const uint32_t from = static_cast<uint32_t>(bytes.size());
    const uint32_t to = segment.committedBytes();
    bytes.resize(to);
    segment.copyOut(from, to, bytes.data() + from);
  }

  ReplicationEvents* events_ = nullptr;
  bool automatic_ = true;
  size_t places_ = SIZE_MAX;
  const Segment* stuck_ = nullptr;  // a head without a place
  bool is_short_ = false;
  bool delivering_ = false;
  std::map<SegmentId, Replica> replicas_;
  std::map<SegmentId, std::vector<std::byte>> made_again_;
  uint32_t storage_percent_ = 0;
  std::vector<SegmentId> pending_opens_;
  std::map<SegmentId, const Segment*> pending_advances_;
  std::vector<const Segment*> pending_closes_;
  std::vector<LogPosition> wanted_flushes_;
  std::vector<std::string> order_;
};

}  // namespace ramcore::log
