#include "runtime/real/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

namespace ramcore::runtime {
namespace {

constexpr uint64_t kKilobyte = 1024;

std::optional<uint64_t> numberOf(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// The number that a file holds; nothing if it holds "max", or there is no such file.
std::optional<uint64_t> numberIn(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return numberOf(word);
}

// The number behind a name that begins a line: "MemTotal:  123 kB", "inactive_file 123".
std::optional<uint64_t> numberBehind(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    std::string second;
    words >> first >> second;
    if (first == name) return numberOf(second);
  }
  return std::nullopt;
}

/// A hierarchy of control groups that limits memory, and the place of this process in it.
struct Hierarchy {
  bool is_v2 = false;
  std::string mount;   // where it is mounted
  std::string shown;   // path of the part that is mounted there
  std::string inside;  // path of this process, in the whole hierarchy
};

// The path of this process in a hierarchy. Lines are "4:memory:/path" (version 1) or "0::/path" (version 2).
std::optional<std::string> placeIn(const std::string& groups, bool is_v2) {
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_it = is_v2 ? controllers == ",," : controllers.find(",memory,") != std::string::npos;
    if (is_it) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The hierarchies that limit memory. Lines are "36 35 98:0 /shown /mount rw,noatime master:1 - cgroup none rw,memory".
std::vector<Hierarchy> hierarchiesIn(const std::string& proc) {
  std::vector<Hierarchy> found;
  std::ifstream file(proc + "/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line);
    std::istringstream behind(line.substr(dash + 3));
    std::string skipped;
    Hierarchy one;
    before >> skipped >> skipped >> skipped >> one.shown >> one.mount;
    std::string type;
    std::string options;
    behind >> type >> skipped >> options;
    one.is_v2 = type == "cgroup2";
    if (!one.is_v2 && (type != "cgroup" || ("," + options + ",").find(",memory,") == std::string::npos)) continue;
    const auto inside = placeIn(proc + "/self/cgroup", one.is_v2);
    if (!inside) continue;
    one.inside = *inside;
    found.push_back(one);
  }
  return found;
}

// What one group allows, and how much of that is free; nothing if it sets no limit.
std::optional<MemoryLimit> limitOf(const Hierarchy& hierarchy, const std::string& folder) {
  std::optional<uint64_t> limit = numberIn(folder + (hierarchy.is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  if (hierarchy.is_v2) {
    // A process that takes more than memory.high is not killed, but hardly gets on.
    const auto high = numberIn(folder + "/memory.high");
    if (high) limit = std::min(limit.value_or(*high), *high);
  }
  if (!limit) return std::nullopt;
  const uint64_t used = numberIn(folder + (hierarchy.is_v2 ? "/memory.current" : "/memory.usage_in_bytes")).value_or(0);
  const uint64_t cached =
      numberBehind(folder + "/memory.stat", hierarchy.is_v2 ? "inactive_file" : "total_inactive_file").value_or(0);
  const uint64_t taken = used - std::min(used, cached);
  return MemoryLimit{.bytes = *limit, .who = {}, .free_bytes = *limit - std::min(*limit, taken)};
}

}  // namespace

MemoryLimit MemoryLimit::read(const std::string& proc, const std::string& root) {
  const uint64_t machine = numberBehind(proc + "/meminfo", "MemTotal:").value_or(0) * kKilobyte;
  const uint64_t available = numberBehind(proc + "/meminfo", "MemAvailable:").value_or(0) * kKilobyte;
  MemoryLimit least{.bytes = machine, .who = "this machine", .free_bytes = available};
  for (const Hierarchy& hierarchy : hierarchiesIn(proc)) {
    // In a container only the part below `shown` may be mounted, while `inside` names the whole path.
    std::string path = hierarchy.inside;
    if (hierarchy.shown != "/" && path.starts_with(hierarchy.shown)) path.erase(0, hierarchy.shown.size());
    if (path == "/") path.clear();
    for (;;) {
      const auto limit = limitOf(hierarchy, root + hierarchy.mount + path);
      if (limit && limit->bytes < least.bytes) {
        least.bytes = limit->bytes;
        least.who = "the control group " + (path.empty() ? "/" : path);
      }
      if (limit) least.free_bytes = std::min(least.free_bytes, limit->free_bytes);
      if (path.empty()) break;
      path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return least;
}

}  // namespace ramcore::runtime
