#include "log/integrity/integrity.h"

#include <algorithm>
#include <bit>

#include "log/format/entry_writer.h"
#include "log/format/log_reader.h"

namespace ramcore::log {

namespace {

constexpr uint32_t kStateByte = offsetof(EntryHeader, state);

// How many bits of an entry have changed, its state byte aside; some number above `bits_max` if they are more than
// that.
uint32_t bitsChanged(const std::byte* now, ByteSpan then, uint32_t bits_max) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < then.size() && bits <= bits_max; ++i) {
    if (i != kStateByte) bits += static_cast<uint32_t>(std::popcount(static_cast<uint8_t>(now[i] ^ then[i])));
  }
  return bits;
}

// The state for which a state byte is taken that may not be what was written: see mendState().
EntryState believedOf(EntryState state) {
  const auto isNear = [state](EntryState other) {
    return std::popcount(static_cast<uint8_t>(static_cast<uint8_t>(state) ^ static_cast<uint8_t>(other))) <= 1;
  };
  if (isNear(EntryState::Acknowledged)) return EntryState::Acknowledged;
  return isNear(EntryState::Superseded) || isNear(EntryState::Freed) ? EntryState::Freed : EntryState::Pending;
}

}  // namespace

bool Integrity::isSound(Segment& segment, uint32_t offset, uint32_t& next) {
  const ByteSpan bytes = segment.restOfExtent(offset);
  EntryView entry;
  const DecodeError error = decodeEntry(bytes, entry);
  if (error == DecodeError::None) {
    next = offset + entry.alignedBytes();
    return true;
  }
  if (mendPadding(segment, offset)) {
    next = offset + EntryView(bytes.data()).alignedBytes();
    return true;
  }
  note(segment, offset, error);
  return false;
}

bool Integrity::mendPadding(Segment& segment, uint32_t offset) {
  const ByteSpan bytes = segment.restOfExtent(offset);
  EntryView entry;
  if (decodeEntry(bytes, entry) != DecodeError::BadPadding) return false;
  // The checksum does not cover the zeros, but it covers the lengths that say where they are.
  const EntryView damaged(bytes.data());
  if (!damaged.verify()) return false;
  const EntryRef ref = segment.refAt(offset);
  for (uint32_t i = damaged.bytes(); i < damaged.alignedBytes(); ++i) byteAt(ref, i).store(0);
  // A bit that does not stay zero when it is written is more than a bit that has flipped once.
  if (decodeEntry(bytes, entry) != DecodeError::None) return false;
  stats_.mended_states.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Integrity::mendState(EntryRef ref) {
  const auto byte = byteAt(ref, kStateByte);
  uint8_t state = byte.load(std::memory_order_relaxed);
  if (log::isKnown(static_cast<EntryState>(state))) return;
  // If the entry dies meanwhile, the state that says so stays.
  const EntryState mended = believedOf(static_cast<EntryState>(state));
  if (byte.compare_exchange_strong(state, static_cast<uint8_t>(mended))) {
    stats_.mended_states.fetch_add(1, std::memory_order_relaxed);
  }
}

uint32_t Integrity::skip(const Segment& segment, uint32_t offset) const {
  const ByteSpan rest = segment.restOfExtent(offset);
  const auto end = offset + static_cast<uint32_t>(rest.size());
  if (rest.size() < kEntryHeaderBytes) return end;
  const uint32_t bytes = EntryView(rest.data()).alignedBytes();
  EntryView following;
  if (bytes >= rest.size() || decodeEntry(rest.subspan(bytes), following) != DecodeError::None) return end;
  return offset + bytes;
}

/// @return the state it had
EntryState Integrity::mark(EntryRef ref, EntryState mark) const {
  const auto byte = byteAt(ref, kStateByte);
  return static_cast<EntryState>(byte.exchange(static_cast<uint8_t>(mark)));
}

Integrity::Known* Integrity::find(EntryRef ref) {
  const auto found = std::find_if(known_.begin(), known_.end(), [ref](const Known& k) { return k.damage.ref == ref; });
  return found != known_.end() ? &*found : nullptr;
}

/// Finds damage by place and segment: the entry that lay in the place may have gone with its segment.
Integrity::Known* Integrity::find(const Damage& damage) {
  Known* const known = find(damage.ref);
  return known != nullptr && known->damage.segment == damage.segment ? known : nullptr;
}

void Integrity::refresh() {
  size_t restoring = 0;
  size_t unplaced = 0;
  for (const Known& known : known_) {
    restoring += known.is_lost ? 0 : 1;
    unplaced += known.is_placed ? 0 : 1;
  }
  restoring_count_.store(restoring, std::memory_order_release);
  unplaced_count_.store(unplaced, std::memory_order_release);
  stats_.damaged_now.store(known_.size(), std::memory_order_relaxed);
}

void Integrity::note(Segment& segment, uint32_t offset, DecodeError error) {
  const bool can_restore = canRestore();
  Damage damage{.segment = segment.id(), .offset_bytes = offset, .ref = segment.refAt(offset), .error = error};
  {
    SpinGuard guard(lock_);
    if (const Known* known = find(damage.ref); known != nullptr) {
      if (known->damage.segment == damage.segment) return;
      // The known damage is that of another entry, which lay in this place before.
      std::erase_if(known_, [&](const Known& other) { return other.damage.ref == damage.ref; });
    }
    const EntryState was = mark(damage.ref, can_restore ? EntryState::Restoring : EntryState::Damaged);
    // Damage beyond the bound is not kept, so it is met again in each pass.
    if (log::isDamaged(was) && known_.size() >= kDamagesMax) return;
    damage.was_dead = was == EntryState::Superseded || was == EntryState::Freed;
    segment.damaged_.store(true, std::memory_order_release);
    segment.was_damaged_.store(true, std::memory_order_relaxed);
    stats_.damaged_entries.fetch_add(1, std::memory_order_relaxed);
    if (known_.size() >= kDamagesMax) return;
    known_.push_back({.damage = damage,
                      .is_lost = !can_restore,
                      .is_placed = damage.was_dead,
                      .state = believedOf(was),
                      .has_died = false,
                      .has_been_acknowledged = false});
    refresh();
  }
  if (observer_ != nullptr) observer_->onDamaged(damage);
}

// The segment is found by the place, because after a compaction another one has the id. The id is compared as well,
// because the place may belong to another segment by now.
const Segment* Integrity::segmentOf(const Damage& damage) const {
  const Segment* const segment = pool_.segmentOf(damage.ref);
  const bool is_there =
      segment != nullptr && segment->state() != SegmentState::Unlinked && segment->id() == damage.segment;
  return is_there ? segment : nullptr;
}

Status Integrity::restoreFrom(const Damage& damage, ByteSpan replica) {
  // Several versions of one key may look much alike, and older ones come first: the form that differs in the fewest
  // bits is taken.
  struct {
    std::vector<std::byte> bytes;
    uint32_t bits = UINT32_MAX;
    bool is_certain = false;
  } best;
  const Segment* const segment = segmentOf(damage);
  if (segment == nullptr) return Status::NotFound;
  const auto consider = [&](ByteSpan form) {
    const std::optional<uint32_t> bits = distanceTo(*segment, damage, form);
    if (!bits || *bits > best.bits || (*bits == best.bits && std::ranges::equal(form, best.bytes))) return;
    best.is_certain = *bits < best.bits;
    best.bits = *bits;
    best.bytes.assign(form.begin(), form.end());
  };
  std::vector<std::byte> form;
  const auto considerForm = [&](uint32_t bytes, auto&& write) {
    form.assign(bytes, std::byte{0});
    write(form.data());
    consider(form);
  };
  SegmentReader reader(replica);
  for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
    for (const EntryView& entry : group) {
      // The forms that may lie in memory: the entry as it was written; its copy by relocation, which is in no group,
      // and perhaps lacks the segment that the entry named or the result that it carried; and the tombstone that
      // relocation leaves of it.
      consider(ByteSpan(entry.address(), entry.alignedBytes()));
      for (const Keep keep : {Keep{true, true}, Keep{true, false}, Keep{false, true}, Keep{false, false}}) {
        if (!keep.name && !entry.namesSegment()) continue;
        if (!keep.result && !entry.carriesResult()) continue;
        considerForm(entry.copyBytes(keep), [&](std::byte* to) { copyEntry(to, entry, keep); });
      }
      if (!entry.namesSegment()) continue;
      if (entry.type() != EntryType::Object || entry.version() == 0) continue;
      considerForm(alignedTombstoneBytes(entry.keyBytes()), [&](std::byte* to) { writeTombstoneBefore(to, entry); });
    }
  }
  return best.is_certain ? restore(damage, best.bytes) : Status::Corrupt;
}

/// How many bits would change if `bytes` were put there; nothing if they cannot be what was written there: no valid
/// entry that fits, or another checksum and more than kBitsMax bits.
std::optional<uint32_t> Integrity::distanceTo(const Segment& segment, const Damage& damage, ByteSpan bytes) const {
  EntryView entry;
  if (decodeEntry(bytes, entry) != DecodeError::None) return std::nullopt;
  const ByteSpan right(entry.address(), entry.alignedBytes());
  if (right.size() > segment.restOfExtent(damage.offset_bytes).size()) return std::nullopt;
  const std::byte* const now = pool_.memory().at(damage.ref);
  const bool has_checksum = EntryView(now).crc() == entry.crc();
  const uint32_t bits = bitsChanged(now, right, has_checksum ? UINT32_MAX - 8 : kBitsMax);
  if (!has_checksum && bits > kBitsMax) return std::nullopt;
  return bits;
}

Status Integrity::restore(const Damage& damage, ByteSpan bytes) {
  const Segment* const segment = segmentOf(damage);
  if (segment == nullptr) return Status::NotFound;
  if (!distanceTo(*segment, damage, bytes)) return Status::Corrupt;
  const ByteSpan right = bytes.first(EntryView(bytes.data()).alignedBytes());
  const std::byte* const now = pool_.memory().at(damage.ref);
  // Byte by byte, atomically: a replica that is made anew may be being sent from here.
  for (uint32_t i = 0; i < right.size(); ++i) {
    if (i != kStateByte && now[i] != right[i]) byteAt(damage.ref, i).store(static_cast<uint8_t>(right[i]));
  }
  return Status::Ok;
}

void Integrity::noteDied(EntryRef ref) {
  SpinGuard guard(lock_);
  if (Known* const known = find(ref); known != nullptr) known->has_died = true;
}

bool Integrity::noteAcknowledged(EntryRef ref) {
  SpinGuard guard(lock_);
  Known* const known = find(ref);
  if (known == nullptr) return false;
  known->has_been_acknowledged = true;
  return true;
}

bool Integrity::isRestored(const Damage& damage) const {
  const Segment* const segment = segmentOf(damage);
  EntryView entry;
  return segment != nullptr && decodeEntry(segment->restOfExtent(damage.offset_bytes), entry) == DecodeError::None;
}

/// The step that takes the mark away also sets the state that tells what happened to the entry meanwhile. After this
/// step the cleaner may move the entry, and leave a state that does not tell what is yet to be counted.
Integrity::Released Integrity::release(const Damage& damage) {
  Released released;
  {
    SpinGuard guard(lock_);
    const Known* const known = find(damage);
    if (known == nullptr || segmentOf(damage) == nullptr) return {};
    released = {.has_died = known->has_died, .has_been_acknowledged = known->has_been_acknowledged};
    const EntryState marked = known->state;
    known_.erase(known_.begin() + (known - known_.data()));
    refresh();
    Segment& segment = *pool_.segmentOf(damage.ref);
    const bool has_more = std::any_of(known_.begin(), known_.end(),
                                      [&](const Known& other) { return other.damage.segment == damage.segment; });
    const auto byte = byteAt(damage.ref, kStateByte);
    uint8_t seen = byte.load();
    do {
      // If the state byte told of a death, the index tells it, too.
      const auto state = static_cast<EntryState>(seen);
      released.was = released.is = log::isDamaged(state) ? marked : state;
      // If the entry was dead, its result was counted out with it.
      if (released.has_been_acknowledged && !isRefused(released.was)) released.is = EntryState::Acknowledged;
      if (released.has_died) released.is = EntryState::Superseded;
    } while (!byte.compare_exchange_strong(seen, static_cast<uint8_t>(released.is)));
    segment.damaged_.store(has_more, std::memory_order_release);
  }
  stats_.restored_entries.fetch_add(1, std::memory_order_relaxed);
  return released;
}

void Integrity::giveUp(const Damage& damage) {
  SpinGuard guard(lock_);
  Known* const known = find(damage);
  if (known == nullptr || segmentOf(damage) == nullptr) return;
  known->is_lost = true;
  auto restoring = static_cast<uint8_t>(EntryState::Restoring);
  byteAt(damage.ref, kStateByte).compare_exchange_strong(restoring, static_cast<uint8_t>(EntryState::Damaged));
  refresh();
}

void Integrity::notePlaced(const Damage& damage) {
  SpinGuard guard(lock_);
  Known* const known = find(damage);
  if (known == nullptr) return;
  known->is_placed = true;
  refresh();
}

void Integrity::forgetGone() {
  SpinGuard guard(lock_);
  const size_t forgotten =
      std::erase_if(known_, [this](const Known& known) { return segmentOf(known.damage) == nullptr; });
  if (forgotten != 0) refresh();
}

Status Integrity::rangeStatus() const {
  if (restoring_count_.load(std::memory_order_acquire) != 0) return Status::RetryLater;
  return unplaced_count_.load(std::memory_order_acquire) != 0 ? Status::Corrupt : Status::Ok;
}

std::vector<Damage> Integrity::damages() const {
  SpinGuard guard(lock_);
  std::vector<Damage> all;
  for (const Known& known : known_) all.push_back(known.damage);
  return all;
}

}  // namespace ramcore::log
