#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "log/format/log_reader.h"
#include "log/log.h"
#include "runtime/pins.h"
#include "runtime/sim/sim_epoch.h"

namespace ramcore::log {

/// An index that is a map, for one thread: the smallest owner there can be.
class MapOwner final : public EntryOwner {
 public:
  explicit MapOwner(const LogMemory& memory) : memory_(memory) {}

  Moved relocated(EntryRef from, EntryRef to, const EntryView& entry, Hint) override {
    const auto found = refs_.find(std::string(asText(entry.key())));
    if (found == refs_.end() || found->second != from) return Moved::No;
    found->second = to;
    return Moved::Yes;
  }
  void dropped(EntryRef, const EntryView& entry) override {
    EXPECT_EQ(entry.type(), EntryType::Tombstone);
    ++dropped_count_;
  }
  SafeVersionPayload safeVersion() override { return safe_version_; }

  Status put(Log& log, const std::string& key, std::string_view value) {
    const ByteSpan payload = asBytes(value);
    std::vector<EntryInput> group(1);
    group[0].table = TableId(1);
    group[0].version = ++version_;
    group[0].key = asBytes(key);
    group[0].payload = std::span(&payload, 1);
    const auto old = refs_.find(key);
    if (old != refs_.end()) group[0].dead = old->second;
    auto appended = log.append(group, AppendClass::Write);
    if (!appended.ok()) return appended.error();
    refs_[key] = appended->refs[0];
    end_ = appended->end;
    return Status::Ok;
  }
  Status remove(Log& log, const std::string& key) {
    const auto old = refs_.find(key);
    if (old == refs_.end()) return Status::NotFound;
    const EntryInput tombstone = tombstoneFor(old->second, key);
    auto appended = log.append(std::span(&tombstone, 1), AppendClass::Remove);
    if (!appended.ok()) return appended.error();
    refs_.erase(old);
    end_ = appended->end;
    return Status::Ok;
  }
  std::optional<std::string> get(const std::string& key) const {
    const auto found = refs_.find(key);
    if (found == refs_.end()) return std::nullopt;
    const EntryView entry(memory_.at(found->second));
    EXPECT_TRUE(entry.verify());
    EXPECT_EQ(asText(entry.key()), key);
    return std::string(asText(entry.payload()));
  }
  const std::map<std::string, EntryRef>& refs() const { return refs_; }
  /// What a writer does after its append: from here on the entry is the key's.
  void report(const std::string& key, EntryRef ref) { refs_[key] = ref; }
  uint64_t droppedCount() const { return dropped_count_; }
  LogPosition end() const { return end_; }
  Version lastVersion() const { return version_; }
  void setSafeVersion(SafeVersionPayload value) { safe_version_ = value; }

 private:
  EntryInput tombstoneFor(EntryRef dead, const std::string& key) const {
    EntryInput tombstone;
    tombstone.type = EntryType::Tombstone;
    tombstone.table = TableId(1);
    tombstone.version = EntryView(memory_.at(dead)).version();
    tombstone.key = asBytes(key);
    tombstone.dead = dead;
    return tombstone;
  }

  const LogMemory& memory_;
  std::map<std::string, EntryRef> refs_;
  Version version_ = 0;
  uint64_t dropped_count_ = 0;
  LogPosition end_;
  SafeVersionPayload safe_version_{1, 2};
};

/// Keeps copies in this process, and reports what the test tells it to.
class CopyingReplicator final : public Replicator {
 public:
  struct Replica {
    std::vector<std::byte> bytes;
    bool opened = false;
    bool closed = false;
    bool operator==(const Replica&) const = default;
  };

  std::function<void()> before_open;  ///< what another thread does then, once

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
  /// Copies of so many segments find a place, and heads of writes leave some of them to others.
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
  /// What was asked for, as far as it is copied.
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
  /// Replicas as recovery may find them if some were lost and made again: of each compacted segment for which `is_lost`
  /// says so the one that was made of its new memory.
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

/// What a recovery would find: the newest digest in an opened, unclosed head, its members replayed by version.
/// Nothing if no such head exists or a member is missing.
inline std::optional<std::map<std::string, std::string>> recover(
    const std::map<SegmentId, CopyingReplicator::Replica>& replicas) {
  std::optional<SegmentPreamble> head;
  for (const auto& [id, replica] : replicas) {
    SegmentPreamble preamble;
    if (!replica.opened || replica.closed || readPreamble(replica.bytes, preamble) != Status::Ok) continue;
    if (preamble.has_digest) head = preamble;  // ids ascend
  }
  if (!head) return std::nullopt;
  struct Entry {
    Version version = 0;
    std::optional<std::string> value;
  };
  std::map<std::string, Entry> entries;
  for (uint32_t i = 0; i < head->digest.payload.count; ++i) {
    const SegmentId member = head->digest.at(i);
    const auto found = replicas.find(member);
    if (found == replicas.end()) return std::nullopt;
    const bool may_be_open = member == head->header.segment || member == head->digest.payload.previous_head;
    if (!found->second.closed && !may_be_open) return std::nullopt;
    SegmentReader reader(found->second.bytes);
    for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
      for (const EntryView& entry : group) {
        if (entry.type() != EntryType::Object && entry.type() != EntryType::Tombstone) continue;
        Entry& known = entries[std::string(asText(entry.key()))];
        const bool tombstone = entry.type() == EntryType::Tombstone;
        // A tombstone holds down its version; an object is above it only if it is newer.
        if (entry.version() < known.version || (entry.version() == known.version && !tombstone)) continue;
        known.version = entry.version();
        known.value = tombstone ? std::nullopt : std::optional(std::string(asText(entry.payload())));
      }
    }
    EXPECT_EQ(reader.end(), WalkEnd::Clean);
  }
  std::map<std::string, std::string> state;
  for (auto& [key, entry] : entries) {
    if (entry.value) state[key] = *entry.value;
  }
  return state;
}

/// A log of 1 MB with everything that belongs to it.
struct LogFixture {
  explicit LogFixture(LogConfig log_config = LogConfig::forTest(), bool replicated = true)
      : config(log_config), memory(LogMemory::open(config.memory_bytes).value()), owner(*memory) {
    Replicator& replicator = replicated ? static_cast<Replicator&>(copies) : none;
    log = std::make_unique<Log>(config, LogIdentity{ClusterId(7), ServerId(11)}, *memory,
                                Log::Environment{owner, replicator, rcu, pins});
  }
  /// One round of the reclaimer.
  void reclaim() {
    rcu.reclaim(16);
    rcu.reclaim(16);
    log->reclaim(++now_ns);
  }
  /// Appends an object that nobody refers to.
  Result<Appended> append(std::string_view key, std::string_view value, AppendClass append_class = AppendClass::Write) {
    const ByteSpan payload = asBytes(value);
    EntryInput input;
    input.table = TableId(1);
    input.version = ++version;
    input.key = asBytes(key);
    input.payload = std::span(&payload, 1);
    return log->append(std::span(&input, 1), append_class);
  }
  /// What the log has counted is what there is.
  void expectCountsAreRight() {
    SegmentPool& pool = log->pool();
    std::map<const Segment*, int64_t> live;
    for (const auto& [key, ref] : owner.refs()) live[pool.segmentOf(ref)] += log->view(ref).alignedBytes();
    int64_t tombstones = 0;
    for (uint32_t n = 0; n < pool.slotCount(); ++n) {
      int64_t naming = 0;
      for (uint32_t h = 0; h < pool.slotCount(); ++h) {
        const int64_t bytes = pool.tombstoneBytes(pool.slot(n), pool.slot(h));
        naming += bytes;
        if (bytes != 0 && pool.slot(h).state() != SegmentState::Unlinked) live[&pool.slot(h)] += bytes;
      }
      if (naming != 0) EXPECT_EQ(pool.slot(n).namedByTombstoneBytes(), static_cast<uint64_t>(naming)) << "slot " << n;
      tombstones += naming;
    }
    EXPECT_EQ(log->stats().tombstone_bytes.load(), tombstones);
    int64_t all = 0;
    for (uint32_t i = 0; i < pool.slotCount(); ++i) {
      EXPECT_EQ(pool.slot(i).liveBytes(), live[&pool.slot(i)]) << "slot " << i;
      all += live[&pool.slot(i)];
    }
    EXPECT_EQ(log->stats().live_bytes.load(), all);
  }

  LogConfig config;
  std::unique_ptr<LogMemory> memory;
  MapOwner owner;
  CopyingReplicator copies;
  NoReplicator none;
  runtime::SimRcu rcu;
  runtime::PinRegistry pins{4};
  uint64_t now_ns = 0;
  Version version = 0;
  std::unique_ptr<Log> log;
};

}  // namespace ramcore::log
