#include "soak/support/soak_model.h"

#include <algorithm>
#include <cstring>

namespace ramcore::soak {
namespace {

uint64_t wordOf(uint64_t stamp, uint64_t index) {
  uint64_t z = stamp * 0x9e3779b97f4a7c15 + index * 0xd1342543de82ef95 + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 27);
}

}  // namespace

void fillValue(uint64_t stamp, MutableByteSpan out) {
  for (size_t at = 0; at < out.size(); at += sizeof(uint64_t)) {
    const uint64_t word = wordOf(stamp, at);
    std::memcpy(out.data() + at, &word, std::min(sizeof(word), out.size() - at));
  }
}

bool isValue(uint64_t stamp, ByteSpan bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = wordOf(stamp, at);
    if (std::memcmp(bytes.data() + at, &word, std::min(sizeof(word), bytes.size() - at)) != 0) return false;
  }
  return true;
}

SoakModel::SoakModel(std::string name, uint32_t key_count)
    : name_(std::move(name)), objects_(key_count), order_(key_count) {
  for (uint32_t i = 0; i < key_count; ++i) objects_[i].place = order_[i] = i;
}

std::string SoakModel::key(uint32_t number) const {
  std::string key = name_ + "/" + std::to_string(number);
  key.append(number % 24, '.');  // keys of all lengths modulo the alignment of entries
  return key;
}

uint32_t SoakModel::drawPresent(runtime::Random& random) const {
  // Half of the draws take an eighth of the keys: segments grow old at different rates.
  const uint64_t range = random.below(2) == 0 ? present_count_ : present_count_ / 8 + 1;
  return order_[random.below(range)];
}

uint32_t SoakModel::drawAbsent(runtime::Random& random) const {
  return order_[present_count_ + random.below(absentCount())];
}

uint64_t SoakModel::entryBytesOf(uint32_t number) const {
  return log::alignedEntryBytes(static_cast<uint32_t>(key(number).size()), objects_[number].bytes, false);
}

void SoakModel::moveTo(uint32_t number, uint32_t place) {
  const uint32_t other = order_[place];
  std::swap(order_[objects_[number].place], order_[place]);
  std::swap(objects_[number].place, objects_[other].place);
}

void SoakModel::wrote(uint32_t number, Version version, uint64_t stamp, uint32_t bytes) {
  if (isPresent(number)) {
    entry_bytes_ -= entryBytesOf(number);
  } else {
    moveTo(number, present_count_++);
  }
  objects_[number].version = version;
  objects_[number].stamp = stamp;
  objects_[number].bytes = bytes;
  entry_bytes_ += entryBytesOf(number);
}

void SoakModel::removed(uint32_t number) {
  entry_bytes_ -= entryBytesOf(number);
  moveTo(number, --present_count_);
}

std::string SoakModel::judge(uint32_t number, const store::Found& found) const {
  const Object& object = objects_[number];
  const bool is_found = found.ref && found.entry.type() == log::EntryType::Object;
  const auto say = [&](const std::string& what) { return "key '" + key(number) + "' " + what; };
  const std::string version = "version " + std::to_string(object.version);
  if (!isPresent(number)) {
    if (!is_found) return "";
    return say("was removed at " + version + ", but version " + std::to_string(found.entry.version()) + " is there");
  }
  if (!is_found) return say("is lost; it had " + version);
  if (!found.entry.verify()) return say("has a wrong checksum");
  if (found.entry.version() != object.version) {
    return say("has version " + std::to_string(found.entry.version()) + " instead of " + version);
  }
  if (found.entry.payloadBytes() != object.bytes) {
    return say("has " + std::to_string(found.entry.payloadBytes()) + " bytes instead of " +
               std::to_string(object.bytes) + " at " + version);
  }
  if (!isValue(object.stamp, found.entry.payload())) return say("has other bytes than were written at " + version);
  return "";
}

}  // namespace ramcore::soak
