#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "log/log.h"

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
  /// Does what a writer does after its append: from here on the key refers to the entry.
  void report(const std::string& key, EntryRef ref) { refs_[key] = ref; }
  /// Does what a writer does after it has removed the key.
  void forget(const std::string& key) { refs_.erase(key); }
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

}  // namespace ramcore::log
