#include "coordinator/recovery/missing_places.h"

#include <algorithm>

namespace ramcore::coordinator {
namespace {

// An eighth of a server's places is for small heads only (backup/free_frames.h).
constexpr uint64_t kShareForHeads = 8;
// Segments that hold hardly anything until the cleaner frees them: of each master its head and the head that it had
// before; of the recovery master two more, from before and after what it has brought.
constexpr uint64_t kHeadsOfEach = 2;
constexpr uint64_t kHeadsOfRecovery = 2;

uint64_t placesFor(uint64_t segments, size_t masters) {
  // A log that is written anew may have a segment more: what it has is dealt out among others that are full.
  return segments + 1 + kHeadsOfEach * masters + kHeadsOfRecovery;
}

uint64_t roundedUp(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

// The ample servers that can keep replicas. If all servers are ample, one of them is the recovery master and does not
// count. Otherwise one that is not ample is the recovery master.
uint64_t ampleCount(std::span<const BackupPlaces> servers, uint64_t segments, size_t masters) {
  const auto ample = static_cast<uint64_t>(
      std::ranges::count_if(servers, [&](const BackupPlaces& places) { return isAmple(places, segments, masters); }));
  return ample != 0 && ample == masters ? ample - 1 : ample;
}

}  // namespace

bool isAmple(const BackupPlaces& places, uint64_t segments, size_t masters) {
  const uint64_t kept = roundedUp(places.places_total, kShareForHeads);
  return places.places_free >= placesFor(segments, masters) + kept;
}

MissingPlaces missingPlaces(const PlacesWanted& wanted, std::span<const BackupPlaces> servers) {
  if (ampleCount(servers, wanted.least_segments, wanted.masters) >= wanted.copies) return {};
  uint64_t place_bytes = 0;
  for (const BackupPlaces& places : servers) {
    if (places.places_total == 0) continue;
    place_bytes = std::max(place_bytes, roundedUp(places.storage_bytes, places.places_total));
  }
  if (place_bytes == 0) return {};
  const uint64_t ample = ampleCount(servers, wanted.all_segments, wanted.masters);
  const uint64_t missing = ample < wanted.copies ? wanted.copies - ample : 1;
  const uint64_t needed = placesFor(wanted.all_segments, wanted.masters + static_cast<size_t>(missing));
  // One more for what else a storage holds.
  const uint64_t places = roundedUp(needed * kShareForHeads, kShareForHeads - 1) + 1;
  return {.servers = static_cast<uint32_t>(missing), .storage_bytes = places * place_bytes};
}

}  // namespace ramcore::coordinator
