#include "sim/cluster/settings.h"

#include <algorithm>
#include <charconv>

#include "runtime/random.h"

namespace ramcore::sim {
namespace {

struct Field {
  std::string_view name;
  uint64_t Settings::* value;
  uint64_t least;
  uint64_t most;
  std::string_view about;
};

constexpr Field kFields[] = {
    {"servers", &Settings::servers, 3, 8, "servers"},
    {"replicas", &Settings::replicas, 1, 7, "copies of each segment"},
    {"min-replicas", &Settings::min_replicas, 1, 7, "with fewer nothing is written"},
    {"workers", &Settings::workers, 1, 16, "worker threads of a server"},
    {"cleaners", &Settings::cleaners, 1, 16, "of them, those that clean at a time"},
    {"segment-kb", &Settings::segment_kb, 64, 2048, "size of segments: 64 or 2048"},
    {"memory-segments", &Settings::memory_segments, 11, 256, "memory of each server's log, in segments"},
    {"keys", &Settings::keys, 4, 100'000, "keys of the workload"},
    {"value-bytes", &Settings::value_bytes, 16, 100'000,
     "small values, at most (five times as much where keys are hot)"},
    {"large-value-bytes", &Settings::large_value_bytes, 9, 500'000, "large values"},
    {"large-permille", &Settings::large_permille, 0, 1000, "share of large values"},
    {"loops", &Settings::loops, 1, 64, "of each client, each with a call outstanding"},
    {"burst", &Settings::burst, 1, 64, "calls of a loop without a pause"},
    {"fast-permille", &Settings::fast_permille, 0, 1000, "share of calls that begin without a coroutine"},
    {"client-lease-ms", &Settings::client_lease_ms, 300, 600'000, "lease of clients"},
    {"pauses-clients", &Settings::pauses_clients, 0, 1, "clients stand still, also for longer than their lease"},
    {"changes-options", &Settings::changes_options, 0, 1, "processes are started again with other options"},
    {"think-us", &Settings::think_us, 1, 1'000'000, "longest pause of a loop behind a call"},
};

uint64_t oneOf(runtime::Random& random, std::initializer_list<uint64_t> values) {
  return values.begin()[random.below(values.size())];
}

struct CornerInfo {
  Corner corner;
  std::string_view name;
  bool (*has)(const Settings& settings);
  double share;
};

constexpr CornerInfo kCorners[kCornerCount] = {
    {Corner::FewServers, "3 servers", [](const Settings& s) { return s.servers == 3; }, 0.25},
    {Corner::ManyServers, "6 servers", [](const Settings& s) { return s.servers == 6; }, 0.25},
    {Corner::OneCopy, "one copy", [](const Settings& s) { return s.replicas == 1; }, 0.16},
    {Corner::OneEnough, "several copies, one is enough",
     [](const Settings& s) { return s.replicas > 1 && s.min_replicas == 1; }, 0.4},
    {Corner::OneWorker, "one worker", [](const Settings& s) { return s.workers == 1; }, 0.16},
    {Corner::ManyCleaners, "more than two cleaners", [](const Settings& s) { return s.cleaners > 2 && s.workers > 2; },
     0.3},
    {Corner::LargeSegments, "large segments", [](const Settings& s) { return s.segment_kb > 64; }, 0.12},
    {Corner::LargeValues, "values of 100 KB and more", [](const Settings& s) { return s.large_value_bytes >= 100'000; },
     0.05},
    {Corner::LittleMemory, "little memory", [](const Settings& s) { return s.memory_segments == 11; }, 0.3},
    {Corner::FewKeys, "at most 12 keys", [](const Settings& s) { return s.keys <= 12; }, 0.25},
    {Corner::ManyKeys, "more than 400 keys", [](const Settings& s) { return s.keys > 400; }, 0.25},
    {Corner::ManyLoops, "several loops", [](const Settings& s) { return s.loops > 1; }, 0.6},
    {Corner::ShortClientLease, "client leases up to 1 s", [](const Settings& s) { return s.client_lease_ms <= 1000; },
     0.25},
    {Corner::PausedClients, "clients that stand still", [](const Settings& s) { return s.pauses_clients != 0; }, 0.5},
    {Corner::OtherOptions, "other options after restarts", [](const Settings& s) { return s.changes_options != 0; },
     0.5},
    {Corner::Bursts, "bursts", [](const Settings& s) { return s.burst > 1; }, 0.5},
};

constexpr bool isInOrder() {
  for (size_t i = 0; i < kCornerCount; ++i) {
    if (kCorners[i].corner != static_cast<Corner>(i)) return false;
  }
  return true;
}
static_assert(isInOrder());

const CornerInfo& cornerOf(Corner corner) { return kCorners[static_cast<size_t>(corner)]; }

// As many of ten as of a thousand.
uint64_t drawKeys(runtime::Random& random) {
  switch (random.below(4)) {
    case 0:
      return random.between(4, 12);
    case 1:
      return random.between(13, 80);
    case 2:
      return random.between(81, 400);
    default:
      return random.between(401, 2000);
  }
}

}  // namespace

uint32_t Settings::entryBytesMax() const {
  return static_cast<uint32_t>(segment_kb == kSmallSegmentKb ? 8u << 10 : segmentBytes() / 4);
}

Settings Settings::drawn(uint64_t seed, bool cold_bytes) {
  runtime::Random random = runtime::Random(seed).stream("settings");
  Settings drawn;
  drawn.servers = random.between(3, 6);
  drawn.replicas = oneOf(random, {1, 2, 2, 3, 3, 3});
  drawn.min_replicas = random.between(1, std::min<uint64_t>(2, drawn.replicas));
  drawn.workers = random.between(1, 6);
  drawn.cleaners = random.between(1, 5);
  const bool is_large = random.below(8) == 0;
  drawn.segment_kb = is_large ? kLargeSegmentKb : kSmallSegmentKb;
  drawn.memory_segments = random.below(3) == 0 ? 11 : 16;
  drawn.keys = drawKeys(random);
  // The share of the room in the memories of all servers that all objects take together.
  constexpr uint64_t kSegmentsApart = 7;  // heads, and what cleaning needs
  constexpr uint64_t kEntryBytes = 100;   // beside the value
  const uint64_t live_percent = random.between(5, 60);
  const uint64_t room = drawn.servers * (drawn.memory_segments - kSegmentsApart) * drawn.segmentBytes();
  const uint64_t each = room * live_percent / 100 / drawn.keys;
  const uint64_t value_bytes = std::max<uint64_t>(32, each - std::min(each, kEntryBytes));
  drawn.value_bytes = std::min<uint64_t>(value_bytes, is_large ? 20'000 : 400);
  drawn.large_permille = oneOf(random, {20, 100, 300, 500});
  const uint64_t large_bytes = cold_bytes ? value_bytes : value_bytes * 1000 / drawn.large_permille;
  drawn.large_value_bytes = std::clamp<uint64_t>(large_bytes, 9, is_large ? 500'000 : 7'500);
  // Runs last as long with many loops as with one: things take time to happen to them.
  drawn.loops = random.below(3) == 0 ? 1 : random.between(2, 8);
  drawn.burst = random.below(2) == 0 ? 1 : random.between(2, 12);
  drawn.think_us *= drawn.loops;
  switch (random.below(4)) {
    case 0:
      drawn.client_lease_ms = random.between(300, 1'000);
      break;
    case 1:
      drawn.client_lease_ms = random.between(1'001, 10'000);
      break;
    default:
      break;
  }
  drawn.fast_permille = oneOf(random, {0, 500, 1000});
  drawn.pauses_clients = random.below(2);
  drawn.changes_options = random.below(2);
  return drawn;
}

std::string Settings::problem() const {
  for (const Field& field : kFields) {
    const uint64_t value = this->*field.value;
    if (value < field.least || value > field.most) {
      return std::string(field.name) + " has to be " + std::to_string(field.least) + " to " +
             std::to_string(field.most);
    }
  }
  if (min_replicas > replicas) return "min-replicas is more than replicas";
  if (segment_kb != kSmallSegmentKb && segment_kb != kLargeSegmentKb) return "segment-kb has to be 64 or 2048";
  constexpr uint64_t kKeyAndHeaderBytes = 256;
  const uint64_t longest = std::max(5 * value_bytes, large_value_bytes);
  if (longest + kKeyAndHeaderBytes > entryBytesMax()) {
    return "values of " + std::to_string(longest) + " bytes do not fit into segments of " + std::to_string(segment_kb) +
           " KB";
  }
  return "";
}

bool Settings::set(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return false;
  for (const Field& field : kFields) {
    if (field.name != text.substr(0, equals)) continue;
    const std::string_view number = text.substr(equals + 1);
    const char* const end = number.data() + number.size();
    const auto [stopped, error] = std::from_chars(number.data(), end, this->*field.value);
    return error == std::errc() && stopped == end;
  }
  return false;
}

std::string Settings::text() const {
  std::string text;
  for (const Field& field : kFields) {
    text += std::string(text.empty() ? "" : " ") + std::string(field.name) + "=" + std::to_string(this->*field.value);
  }
  return text;
}

std::string Settings::help() {
  std::string help;
  const Settings fixed;
  for (const Field& field : kFields) {
    const std::string name(field.name);
    help += "    " + name + std::string(20 - name.size(), ' ') + std::string(field.about) + " (" +
            std::to_string(fixed.*field.value) + ")\n";
  }
  return help;
}

std::string_view name(Corner corner) { return cornerOf(corner).name; }

bool isIn(Corner corner, const Settings& settings) { return cornerOf(corner).has(settings); }

double shareOf(Corner corner) { return cornerOf(corner).share; }

Settings SettingsSource::of(uint64_t seed, bool cold_bytes) const {
  Settings settings = drawn ? Settings::drawn(seed, cold_bytes) : Settings();
  for (const std::string& change : changes) settings.set(change);
  return settings;
}

std::string SettingsSource::flags() const {
  std::string flags = drawn ? " --settings drawn" : "";
  for (const std::string& change : changes) flags += " --set " + change;
  return flags;
}

}  // namespace ramcore::sim
