#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/number.h"

namespace ramcore::wire {

namespace control {
class ServerStateResponse;
}

/// The numbers that a server tells of its state. kServerNumbers says what each of them means.
struct ServerNumbers {
  uint64_t memory_bytes = 0;
  uint64_t live_bytes = 0;
  uint64_t live_bytes_max = 0;
  uint64_t tombstone_bytes = 0;
  uint64_t result_bytes = 0;
  uint64_t cleaner_copied_bytes = 0;  ///< this and what follows to replica_bytes: since the server was started
  uint64_t cleaner_freed_bytes = 0;
  uint64_t compaction_copied_bytes = 0;  ///< this and the next: parts of the cleaner's, within memory, without replicas
  uint64_t compaction_freed_bytes = 0;
  uint64_t appended_bytes = 0;  ///< without the cleaner's copies
  uint64_t replica_bytes = 0;   ///< the cleaner's copies and repairs included
  uint64_t pinned_bytes = 0;
  uint64_t damaged_entries = 0;  ///< since the server was started
  uint64_t damaged_now = 0;      ///< part of damaged_entries
  uint64_t objects = 0;
  uint64_t index_bytes = 0;
  uint64_t requests = 0;
  int64_t uptime_ns = 0;
  uint32_t replicas_wanted = 0;  ///< 0: no replication
  uint32_t replicas_least = 0;
  uint64_t segments_repairing = 0;
  uint64_t frames_total = 0;  ///< for replicas of others; 0: none
  uint64_t frames_free = 0;
  uint64_t storage_bytes = 0;
  uint64_t storage_bytes_needed = 0;
  bool storage_failed = false;
  bool has_too_few = false;
  bool is_short_of_places = false;
};

/// The declaration of one number of ServerNumbers.
struct ServerNumber {
  std::string_view name;  ///< of the field in `struct ServerNumbers` and in the message, and in JSON
  NumberMeaning meaning;
  bool is_shown = true;  ///< false: JSON has something that is computed from it in its place
  uint64_t (*read)(const ServerNumbers&) = nullptr;
};

namespace server_number_detail {

template <auto kMember>
constexpr uint64_t read(const ServerNumbers& numbers) {
  return static_cast<uint64_t>(numbers.*kMember);
}

template <auto kMember>
constexpr ServerNumber declare(std::string_view name, const NumberMeaning& meaning, bool is_shown = true) {
  return {.name = name, .meaning = meaning, .is_shown = is_shown, .read = read<kMember>};
}

constexpr NumberMeaning gauge(NumberUnit unit, std::string_view metric, std::string_view help) {
  return {.metric = metric, .help = help, .kind = NumberKind::Gauge, .unit = unit};
}
constexpr NumberMeaning counter(NumberUnit unit, std::string_view metric, std::string_view help) {
  return {.metric = metric, .help = help, .kind = NumberKind::Counter, .unit = unit};
}

using enum NumberUnit;
using Numbers = ServerNumbers;
inline constexpr auto kDeclared = std::to_array<ServerNumber>({
    declare<&Numbers::memory_bytes>("memory_bytes", gauge(Bytes, "ramcore_log_memory_bytes", "Memory of the log")),
    declare<&Numbers::live_bytes>(
        "live_bytes", gauge(Bytes, "", "Bytes of its log that are still needed, and what would become tombstones")),
    declare<&Numbers::live_bytes_max>(
        "live_bytes_max", gauge(Bytes, "ramcore_log_live_bytes_max", "Live bytes at which writes are refused")),
    declare<&Numbers::tombstone_bytes>(
        "tombstone_bytes", gauge(Bytes, "", "Part of the live bytes: tombstones, and what would become some")),
    declare<&Numbers::result_bytes>("result_bytes",
                                    gauge(Bytes, "ramcore_log_result_bytes", "Part of the live bytes: result records")),
    declare<&Numbers::cleaner_copied_bytes>("cleaner_copied_bytes", counter(Bytes, "ramcore_cleaner_copied_bytes_total",
                                                                            "Live bytes the cleaner has moved")),
    declare<&Numbers::cleaner_freed_bytes>(
        "cleaner_freed_bytes",
        counter(Bytes, "ramcore_cleaner_freed_bytes_total", "Memory that passes gave back beyond what they kept")),
    declare<&Numbers::compaction_copied_bytes>(
        "compaction_copied_bytes",
        counter(Bytes, "ramcore_cleaner_compaction_copied_bytes_total", "Bytes that compactions moved within memory")),
    declare<&Numbers::compaction_freed_bytes>(
        "compaction_freed_bytes",
        counter(Bytes, "ramcore_cleaner_compaction_freed_bytes_total", "Memory that compactions gave back")),
    declare<&Numbers::appended_bytes>("appended_bytes",
                                      counter(Bytes, "ramcore_log_appended_bytes_total", "Bytes appended")),
    declare<&Numbers::replica_bytes>(
        "replica_bytes", counter(Bytes, "ramcore_replica_bytes_total", "Bytes of the log sent to replicas")),
    declare<&Numbers::pinned_bytes>(
        "pinned_bytes",
        gauge(Bytes, "", "Values that answers in transmission show from its log, and memory kept for them")),
    declare<&Numbers::damaged_entries>("damaged_entries", counter(Items, "ramcore_log_damaged_entries_total",
                                                                  "Entries in memory that were not what was written")),
    declare<&Numbers::damaged_now>(
        "damaged_now", gauge(Items, "ramcore_log_damaged_now", "Entries that were found damaged and are not restored")),
    declare<&Numbers::objects>("objects", gauge(Items, "ramcore_index_entries", "Keys in the hash index")),
    declare<&Numbers::index_bytes>("index_bytes",
                                   gauge(Bytes, "ramcore_index_memory_bytes", "Memory of the hash index")),
    declare<&Numbers::requests>("requests", counter(Items, "", "Requests of all opcodes that were handled")),
    declare<&Numbers::uptime_ns>("uptime_ns", gauge(Nanoseconds, "", "Since it was started"), false),
    declare<&Numbers::replicas_wanted>(
        "replicas_wanted", gauge(Items, "ramcore_replicas_wanted", "Copies of each segment, by configuration")),
    declare<&Numbers::replicas_least>(
        "replicas_least", gauge(Items, "ramcore_replicas_least", "Complete copies of the segment that has the fewest")),
    declare<&Numbers::segments_repairing>(
        "segments_repairing",
        gauge(Items, "ramcore_segments_repairing", "Segments with fewer copies than the servers that live allow")),
    declare<&Numbers::frames_total>("frames_total",
                                    gauge(Items, "ramcore_backup_frames", "Places for replicas in the storage")),
    declare<&Numbers::frames_free>("frames_free", gauge(Items, "ramcore_backup_frames_free",
                                                        "Places for replicas in the storage that hold no replica")),
    declare<&Numbers::storage_bytes>("storage_bytes", gauge(Bytes, "", "Of all frames of its storage")),
    declare<&Numbers::storage_bytes_needed>(
        "storage_bytes_needed", gauge(Bytes, "", "Storage for its memory and replicas, where all servers are alike")),
    declare<&Numbers::storage_failed>(
        "storage_failed",
        gauge(Flag, "ramcore_backup_condemned", "1 if a flush has failed and nothing is written any more")),
    declare<&Numbers::has_too_few>(
        "has_too_few", gauge(Flag, "", "Too few other servers keep replicas, or have room: it takes no writes"), false),
    declare<&Numbers::is_short_of_places>(
        "is_short_of_places",
        gauge(Flag, "", "A log head has no room on the storage of others; has_too_few follows after 1 s")),
});

}  // namespace server_number_detail

/// The declaration of each number, in the order of JSON. Those that metrics have too have their names there.
inline constexpr auto kServerNumbers = server_number_detail::kDeclared;

/// The meaning of a server's number that metrics have as well.
template <auto kMember>
consteval NumberMeaning meaningInMetrics() {
  for (const ServerNumber& number : kServerNumbers) {
    if (number.read == server_number_detail::read<kMember> && !number.meaning.metric.empty()) return number.meaning;
  }
  throw "metrics do not have it";  // not a constant expression, so it does not compile
}

/// Writes the numbers into a message.
void fillNumbers(const ServerNumbers& numbers, control::ServerStateResponse& out);
/// Reads the numbers of a message. They are what the server says: none of them is checked.
ServerNumbers numbersIn(const control::ServerStateResponse& state);

}  // namespace ramcore::wire
