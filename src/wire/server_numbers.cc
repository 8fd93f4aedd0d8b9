#include "wire/server_numbers.h"

#include "wire/control.h"

namespace ramcore::wire {
namespace {

using control::ServerStateResponse;

// A field of the message, and the number in it.
struct Field {
  std::string_view name;
  uint64_t (*read)(const ServerNumbers&);
  void (*store)(const ServerNumbers&, ServerStateResponse&);
  void (*load)(const ServerStateResponse&, ServerNumbers&);
};

template <auto kMember, auto kGet, auto kSet>
constexpr Field field(std::string_view name) {
  return {.name = name,
          .read = server_number_detail::read<kMember>,
          .store = [](const ServerNumbers& from, ServerStateResponse& to) { (to.*kSet)(from.*kMember); },
          .load = [](const ServerStateResponse& from, ServerNumbers& to) { to.*kMember = (from.*kGet)(); }};
}

#define RC_FIELD(name) field<&ServerNumbers::name, &ServerStateResponse::name, &ServerStateResponse::set_##name>(#name)
constexpr auto kFields = std::to_array<Field>({
    RC_FIELD(memory_bytes),
    RC_FIELD(live_bytes),
    RC_FIELD(live_bytes_max),
    RC_FIELD(tombstone_bytes),
    RC_FIELD(result_bytes),
    RC_FIELD(cleaner_copied_bytes),
    RC_FIELD(cleaner_freed_bytes),
    RC_FIELD(compaction_copied_bytes),
    RC_FIELD(compaction_freed_bytes),
    RC_FIELD(appended_bytes),
    RC_FIELD(replica_bytes),
    RC_FIELD(pinned_bytes),
    RC_FIELD(damaged_entries),
    RC_FIELD(damaged_now),
    RC_FIELD(objects),
    RC_FIELD(index_bytes),
    RC_FIELD(requests),
    RC_FIELD(uptime_ns),
    RC_FIELD(replicas_wanted),
    RC_FIELD(replicas_least),
    RC_FIELD(segments_repairing),
    RC_FIELD(frames_total),
    RC_FIELD(frames_free),
    RC_FIELD(storage_bytes),
    RC_FIELD(storage_bytes_needed),
    RC_FIELD(storage_failed),
    RC_FIELD(has_too_few),
    RC_FIELD(is_short_of_places),
});
#undef RC_FIELD

static_assert(
    [] {
      if (kFields.size() != fieldCount<ServerNumbers>() || kServerNumbers.size() != kFields.size()) return false;
      for (size_t i = 0; i < kFields.size(); ++i) {
        if (kFields[i].name != kServerNumbers[i].name || kFields[i].read != kServerNumbers[i].read) return false;
        if (!kServerNumbers[i].meaning.isNamedWell()) return false;
        for (size_t j = 0; j < i; ++j) {
          if (kServerNumbers[i].read == kServerNumbers[j].read || kServerNumbers[i].name == kServerNumbers[j].name)
            return false;
        }
      }
      return true;
    }(),
    "each number is declared once, and has its field in the message");

}  // namespace

void fillNumbers(const ServerNumbers& numbers, ServerStateResponse& out) {
  for (const Field& field : kFields) field.store(numbers, out);
}

ServerNumbers numbersIn(const ServerStateResponse& state) {
  ServerNumbers numbers;
  for (const Field& field : kFields) field.load(state, numbers);
  return numbers;
}

}  // namespace ramcore::wire
