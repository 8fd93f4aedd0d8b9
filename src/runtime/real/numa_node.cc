#include "runtime/real/numa_node.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

namespace ramcore::runtime {
namespace {

constexpr uint32_t kProcessorsMax = 1u << 16;
constexpr uint32_t kNodesMax = 1024;  // the kernel's limit

std::string firstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<uint32_t> takeNumber(std::string_view& text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number >= kProcessorsMax) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// The numbers of a list as the kernel writes it ("0-3,8"), up to the first text that is not of that form.
std::vector<uint32_t> listed(std::string_view text) {
  std::vector<uint32_t> numbers;
  while (const auto first = takeNumber(text)) {
    uint32_t last = *first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = takeNumber(text).value_or(*first);
    }
    for (uint32_t number = *first; number <= last; ++number) numbers.push_back(number);
    if (!text.starts_with(',')) break;
    text.remove_prefix(1);
  }
  return numbers;
}

uint64_t memoryOf(const std::string& directory) {
  std::ifstream file(directory + "/meminfo");
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kName = "MemTotal:";
    const size_t at = line.find(kName);
    if (at != std::string::npos) return std::strtoull(line.c_str() + at + kName.size(), nullptr, 10) * 1024;
  }
  return 0;
}

struct SetOfProcessors {
  explicit SetOfProcessors(size_t count) : bytes(CPU_ALLOC_SIZE(count)), set(CPU_ALLOC(count)) {
    CPU_ZERO_S(bytes, set);
  }
  ~SetOfProcessors() { CPU_FREE(set); }
  SetOfProcessors(const SetOfProcessors&) = delete;
  SetOfProcessors& operator=(const SetOfProcessors&) = delete;

  const size_t bytes;
  cpu_set_t* const set;
};

}  // namespace

Outcome<NumaNode> NumaNode::find(uint32_t number, const std::string& root) {
  const std::string directory = root + "/node" + std::to_string(number);
  std::vector<uint32_t> processors = listed(firstLine(directory + "/cpulist"));
  if (processors.empty() || number >= kNodesMax) {
    const std::string online = firstLine(root + "/online");
    return Failure{Status::BadConfig, "this machine has no NUMA node " + std::to_string(number) + " with processors; " +
                                          (online.empty() ? "it tells of none" : "its nodes are " + online)};
  }
  return NumaNode(number, std::move(processors), memoryOf(directory));
}

Outcome<bool> NumaNode::bindThread() const {
  const std::string name = "NUMA node " + std::to_string(number_);
  const SetOfProcessors allowed(kProcessorsMax);
  if (sched_getaffinity(0, allowed.bytes, allowed.set) != 0) {
    return Failure{Status::IoError, std::string("cannot ask for the processors allowed: ") + std::strerror(errno)};
  }
  const SetOfProcessors wanted(kProcessorsMax);
  for (const uint32_t processor : processors_) {
    if (CPU_ISSET_S(processor, allowed.bytes, allowed.set)) CPU_SET_S(processor, wanted.bytes, wanted.set);
  }
  if (CPU_COUNT_S(wanted.bytes, wanted.set) == 0) {
    return Failure{Status::BadConfig, "this process may run on none of the processors of " + name +
                                          "; choose a node that its control group or taskset allows"};
  }
  // Memory is bound first, because containers may refuse that.
  constexpr size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;
  unsigned long nodes[kNodesMax / kWordBits] = {};
  nodes[number_ / kWordBits] |= 1UL << number_ % kWordBits;
  // The kernel uses one bit less than this number says.
  if (syscall(SYS_set_mempolicy, MPOL_BIND, nodes, kNodesMax + 1) != 0) {
    return Failure{Status::IoError,
                   "cannot bind memory to " + name + ": " + std::strerror(errno) +
                       (errno == EPERM    ? "; in a container this takes CAP_SYS_NICE"
                        : errno == EINVAL ? "; the node has no memory, or none that this process may use"
                                          : "; choose another node")};
  }
  if (sched_setaffinity(0, wanted.bytes, wanted.set) != 0) {
    return Failure{Status::IoError, "cannot bind threads to " + name + ": " + std::strerror(errno)};
  }
  return true;
}

}  // namespace ramcore::runtime
