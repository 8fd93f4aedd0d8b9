// The simulator: whole clusters in simulated time, one seed after the other. Exits with 0 only if every seed passed
// every check and every total reached its floor.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mutation.h"
#include "runtime/frame_pool.h"
#include "sim/cluster/frame_judge.h"
#include "sim/cluster/run_totals.h"

namespace ramcore::sim {
namespace {

struct Arguments {
  uint64_t first = 1;
  uint64_t seeds = 50;
  uint64_t calls = kCallsPerClient;
  uint64_t jobs = 1;
  uint64_t within_s = 0;
  std::optional<uint64_t> at_least;
  bool faults = true;
  bool crashes = false;
  bool print = false;
  bool hashes = false;
  bool without_text = false;
  bool every_step = false;
  bool scrubs = false;
  bool frames = false;
  std::string judge;
  bool interludes = false;
  SettingsSource settings;
  std::string mutation;
};

constexpr const char* kUsage =
    "simulator [--seeds N] [--first SEED] [--seed SEED] [--jobs N] [--within SECONDS [--at-least N]] [--calls N] "
    "[--no-faults] [--crashes] [--print] "
    "[--every-step] [--scrub] [--frames] [--interludes] [--judge PROGRAM] [--settings fixed|drawn] [--set NAME=VALUE] "
    "[--hashes [--without-text]] "
    "[--mutation NAME]\n"
    "  --seeds N        how many seeds to run, from --first on (50)\n"
    "  --first SEED     the first one (1)\n"
    "  --seed SEED      just this one\n"
    "  --jobs N         processes that share the seeds (1); totals and their floors are those of all of them\n"
    "  --within SECONDS begin no seed later than that (0: no limit)\n"
    "  --at-least N     with --within: so many seeds must have been run then, else it fails (all)\n"
    "  --calls N        calls of each of the 8 clients (320; with fewer nothing has a floor)\n"
    "  --no-faults      only moves and splits\n"
    "  --crashes        servers with disks and replicas, which are killed and started again\n"
    "  --every-step     with --crashes: judge what is on the disks at every step, not at some; takes long\n"
    "  --scrub          with --crashes: servers read their storage again all the time\n"
    "  --frames         the protocol of Ethernet frames, over a simulated switch\n"
    "  --judge PROGRAM  with --crashes: have some moments judged by it as well (tests/frames/judge)\n"
    "  --interludes     dispatches run in the middle of jobs of workers (builds with RAMCORE_MUTATIONS)\n"
    "  --settings FROM  fixed: those below (default); drawn: each seed has its own, which --seed SEED prints\n"
    "  --set NAME=VALUE this setting for all seeds; as often as needed\n"
    "  --print          print every trace line\n"
    "  --hashes         print the trace hash of each seed\n"
    "  --without-text   with --hashes: of events and messages alone, without the words of trace lines\n"
    "  --mutation NAME  plant this bug (builds with RAMCORE_MUTATIONS): succeeds if a seed catches it\n"
    "  settings, with those that are fixed:\n";

bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto number = [&](uint64_t& out) {
      if (i + 1 >= argc) return false;
      char* end = nullptr;
      out = std::strtoull(argv[++i], &end, 10);
      return *end == '\0';
    };
    bool ok = true;
    if (flag == "--seeds") {
      ok = number(arguments.seeds);
    } else if (flag == "--first") {
      ok = number(arguments.first);
    } else if (flag == "--seed") {
      ok = number(arguments.first);
      arguments.seeds = 1;
    } else if (flag == "--jobs") {
      ok = number(arguments.jobs);
    } else if (flag == "--within") {
      ok = number(arguments.within_s);
    } else if (flag == "--at-least") {
      ok = number(arguments.at_least.emplace());
    } else if (flag == "--calls") {
      ok = number(arguments.calls);
    } else if (flag == "--no-faults") {
      arguments.faults = false;
    } else if (flag == "--crashes") {
      arguments.crashes = true;
    } else if (flag == "--every-step") {
      arguments.every_step = true;
    } else if (flag == "--scrub") {
      arguments.scrubs = true;
    } else if (flag == "--frames") {
      arguments.frames = true;
    } else if (flag == "--print") {
      arguments.print = true;
    } else if (flag == "--hashes") {
      arguments.hashes = true;
    } else if (flag == "--without-text") {
      arguments.without_text = true;
    } else if (flag == "--judge" && i + 1 < argc) {
      arguments.judge = argv[++i];
    } else if (flag == "--interludes") {
      arguments.interludes = true;
    } else if (flag == "--settings" && i + 1 < argc) {
      const std::string from = argv[++i];
      arguments.settings.drawn = from == "drawn";
      ok = from == "drawn" || from == "fixed";
    } else if (flag == "--set" && i + 1 < argc) {
      arguments.settings.changes.emplace_back(argv[++i]);
      ok = Settings().set(arguments.settings.changes.back());
    } else if (flag == "--mutation" && i + 1 < argc) {
      arguments.mutation = argv[++i];
    } else {
      ok = false;
    }
    if (!ok) return false;
  }
  return arguments.seeds > 0 && arguments.jobs > 0 && (arguments.hashes || !arguments.without_text) &&
         arguments.at_least.value_or(0) <= arguments.seeds && (arguments.within_s > 0 || !arguments.at_least);
}

/// Gives out the seeds, one after the other, until there are no more or the time is used up. Lies in memory that the
/// processes share.
class SeedQueue {
 public:
  explicit SeedQueue(const Arguments& arguments)
      : next_(arguments.first),
        end_(arguments.first + arguments.seeds),
        last_begin_(arguments.within_s == 0 ? Clock::time_point::max()
                                            : Clock::now() + std::chrono::seconds(arguments.within_s)) {}

  bool take(uint64_t& seed) {
    if (Clock::now() > last_begin_) return false;
    seed = next_.fetch_add(1, std::memory_order_relaxed);
    return seed < end_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static_assert(std::atomic<uint64_t>::is_always_lock_free);  // it counts for several processes

  std::atomic<uint64_t> next_;
  const uint64_t end_;
  const Clock::time_point last_begin_;
};

/// The results of the seeds that one process ran. In memory that the processes share.
struct Share {
  uint64_t seeds = 0;
  RunCounts counts;
  uint64_t failed = 0;
  uint64_t fewest_operations = ~uint64_t{0};  ///< completed in one seed
  double simulated_s = 0;
  uint64_t at = 0;           ///< the seed that is running
  bool is_complete = false;  ///< the process came to the end
};

std::string modeOf(const Arguments& arguments) {
  return std::string(arguments.faults ? "" : " --no-faults") + (arguments.crashes ? " --crashes" : "") +
         (arguments.every_step ? " --every-step" : "") + (arguments.scrubs ? " --scrub" : "") +
         (arguments.frames ? " --frames" : "") + (arguments.interludes ? " --interludes" : "") +
         (arguments.judge.empty() ? "" : " --judge " + arguments.judge) + arguments.settings.flags();
}

constexpr uint64_t kFailuresMax = 3;  // of a share: then it is enough

RunReport runSeed(const Arguments& arguments, uint64_t seed, FrameJudge* judge) {
  RunOptions options;
  options.seed = seed;
  options.calls_per_client = arguments.calls;
  options.operations_min = arguments.calls >= kCallsPerClient ? kOperationsMin : 0;
  options.faults = arguments.faults;
  options.crashes = arguments.crashes;
  options.every_step = arguments.every_step;
  options.scrubs = arguments.scrubs;
  options.frames = arguments.frames;
  options.judge = judge;
  options.interludes = arguments.interludes;
  options.settings = arguments.settings;
  options.hashes_text = !arguments.without_text;
  if (arguments.print) {
    options.print = [](std::string_view line) { std::printf("%.*s\n", static_cast<int>(line.size()), line.data()); };
  }
  const int64_t frames_before = runtime::framesAlive();
  RunReport report = runSimulation(options);
  if (report.ok && runtime::framesAlive() != frames_before) {
    report.ok = false;
    report.failure = std::to_string(runtime::framesAlive() - frames_before) + " coroutines were left suspended\n";
  }
  if (arguments.settings != SettingsSource() && arguments.seeds == 1)
    std::printf("settings %s\n", report.settings.c_str());
  if (arguments.hashes) {
    std::printf("seed %llu hash %016llx\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(report.trace_hash));
  }
  return report;
}

std::unique_ptr<FrameJudge> makeJudge(const Arguments& arguments) {
  return arguments.judge.empty() ? nullptr : std::make_unique<FrameJudge>(arguments.judge);
}

void runShare(const Arguments& arguments, SeedQueue& queue, Share& share) {
  const std::unique_ptr<FrameJudge> judge = makeJudge(arguments);
  uint64_t seed = 0;
  while (share.failed < kFailuresMax && queue.take(seed)) {
    share.at = seed;
    const RunReport report = runSeed(arguments, seed, judge.get());
    ++share.seeds;
    share.counts.add(report.counts);
    share.fewest_operations = std::min(share.fewest_operations, report.counts.operations);
    share.simulated_s += static_cast<double>(report.simulated_ns) * 1e-9;
    if (report.ok) continue;
    ++share.failed;
    std::printf("seed %llu FAILED; repeat it with: simulator --seed %llu --calls %llu%s\nsettings %s\n%s\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(arguments.calls), modeOf(arguments).c_str(), report.settings.c_str(),
                report.failure.c_str());
    std::fflush(stdout);
  }
  share.is_complete = true;
}

// Each share in a process of its own; what they found stays in `shares`.
void runInProcesses(const Arguments& arguments, SeedQueue& queue, std::span<Share> shares) {
  std::vector<pid_t> processes;
  std::fflush(stdout);
  for (Share& share : shares) {
    const pid_t process = fork();
    if (process == 0) {
      runShare(arguments, queue, share);
      std::fflush(stdout);
      std::_Exit(0);
    }
    if (process > 0) processes.push_back(process);
  }
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
  }
}

int runMutation(const Arguments& arguments) {
#if defined(RAMCORE_MUTATIONS)
  setMutation(arguments.mutation);
#else
  std::fprintf(stderr, "simulator: --mutation needs a build with RAMCORE_MUTATIONS (preset mutation)\n");
  return 2;
#endif
  const std::unique_ptr<FrameJudge> judge = makeJudge(arguments);
  for (uint64_t seed = arguments.first; seed < arguments.first + arguments.seeds; ++seed) {
    // A planted bug may end the process: whoever reads this knows at which seed.
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    const RunReport report = runSeed(arguments, seed, judge.get());
    if (report.ok) continue;
    std::printf("mutation %s: caught by seed %llu: %s\n", arguments.mutation.c_str(),
                static_cast<unsigned long long>(seed), report.failure.substr(0, report.failure.find('\n')).c_str());
    return 0;
  }
  std::printf("mutation %s: NOT caught by %llu seeds\n", arguments.mutation.c_str(),
              static_cast<unsigned long long>(arguments.seeds));
  return 1;
}

// Adds up what the processes found; false if one of them did not come to the end.
bool addUp(const Arguments& arguments, std::span<const Share> shares, Share& all) {
  bool is_complete = true;
  for (const Share& share : shares) {
    all.seeds += share.seeds;
    all.counts.add(share.counts);
    all.failed += share.failed;
    all.fewest_operations = std::min(all.fewest_operations, share.fewest_operations);
    all.simulated_s += share.simulated_s;
    is_complete = is_complete && share.is_complete;
    if (!share.is_complete) {
      std::printf("a process ended in seed %llu; repeat it with: simulator --seed %llu%s\n",
                  static_cast<unsigned long long>(share.at), static_cast<unsigned long long>(share.at),
                  modeOf(arguments).c_str());
    }
  }
  return is_complete;
}

// Memory that the processes will share, until the program ends; null if there is none.
void* sharedMemory(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

int run(const Arguments& arguments) {
  const uint64_t count = std::min(arguments.jobs, arguments.seeds);
  void* queue_memory = sharedMemory(sizeof(SeedQueue));
  void* share_memory = sharedMemory(count * sizeof(Share));
  if (queue_memory == nullptr || share_memory == nullptr) return 2;
  SeedQueue& queue = *new (queue_memory) SeedQueue(arguments);
  const std::span<Share> shares(static_cast<Share*>(share_memory), count);
  for (Share& share : shares) new (&share) Share;
  const auto began = std::chrono::steady_clock::now();
  if (count == 1) {
    runShare(arguments, queue, shares[0]);
  } else {
    runInProcesses(arguments, queue, shares);
  }
  const double real_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  Share all;
  const bool is_complete = addUp(arguments, shares, all);
  std::printf("totals of %llu seeds (%.0f simulated seconds in %.1f); at least %llu operations completed in each:\n",
              static_cast<unsigned long long>(all.seeds), all.simulated_s, real_s,
              static_cast<unsigned long long>(all.fewest_operations));
  const bool is_full_size = arguments.calls >= kCallsPerClient;
  const bool floors_reached = printTotals(all.counts, all.seeds,
                                          {.faults = arguments.faults,
                                           .crashes = arguments.crashes,
                                           .drawn = arguments.settings.drawn,
                                           .interludes = arguments.interludes,
                                           .frames = arguments.frames,
                                           .judged = !arguments.judge.empty()}) ||
                              !is_full_size;
  std::printf("%llu seeds, %llu failed%s%s\n", static_cast<unsigned long long>(all.seeds),
              static_cast<unsigned long long>(all.failed), is_complete ? "" : ", a process did not come to the end",
              floors_reached ? "" : ", a total is under its floor");
  const uint64_t at_least = arguments.at_least.value_or(arguments.seeds);
  if (all.seeds < arguments.seeds && arguments.within_s > 0) {
    std::printf("%llu seeds were asked for; the time of %llu s was over before (%llu are needed)\n",
                static_cast<unsigned long long>(arguments.seeds), static_cast<unsigned long long>(arguments.within_s),
                static_cast<unsigned long long>(at_least));
  }
  return all.failed == 0 && is_complete && floors_reached && all.seeds >= at_least ? 0 : 1;
}

}  // namespace
}  // namespace ramcore::sim

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--help") {
    std::fputs((ramcore::sim::kUsage + ramcore::sim::Settings::help()).c_str(), stdout);
    return 0;
  }
  ramcore::sim::Arguments arguments;
  if (!ramcore::sim::parse(argc, argv, arguments)) {
    std::fputs(ramcore::sim::kUsage, stderr);
    return 2;
  }
  // A seed has dozens of small servers, and each uses a few pages of each of its segments. In huge pages the kernel
  // cleared 2 MB for each, which took a sixth of the time. Where the kernel refuses, the run is slower and nothing
  // else.
  ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
#if defined(__GLIBC__)
  // Memory that one seed frees stays with the process for the next one.
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 16 << 20);
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
#endif
#if !defined(RAMCORE_MUTATIONS)
  if (arguments.interludes) {
    std::fprintf(stderr, "simulator: --interludes needs a build with RAMCORE_MUTATIONS (preset mutation)\n");
    return 2;
  }
#endif
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was found stays found if a later seed crashes
  // First of all how to repeat this run.
  std::printf("simulator --first %llu --seeds %llu --calls %llu%s\n", static_cast<unsigned long long>(arguments.first),
              static_cast<unsigned long long>(arguments.seeds), static_cast<unsigned long long>(arguments.calls),
              ramcore::sim::modeOf(arguments).c_str());
  return arguments.mutation.empty() ? ramcore::sim::run(arguments) : ramcore::sim::runMutation(arguments);
}
