#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "runtime/sim/sim_storage.h"
#include "sim/checkers/history.h"

namespace ramcore::sim {

/// A moment as a judge sees it: what is on the disks, who owns which tablets, and what clients were told.
struct JudgedMoment {
  struct Disk {
    const runtime::SimDisk* disk = nullptr;  ///< nullptr: the machine has no power
    ByteSpan frames;                         ///< the file, as it is to be judged; empty: there is none
    uint64_t power_epoch = 0;                ///< of the machine that opens it
  };
  struct Tablet {
    TableId table;
    HashRange range;
    SegmentId first_segment;
  };
  struct Owner {
    ServerId server;
    SegmentId floor_segment;
    uint64_t floor_epoch = 0;
    bool is_all_sync = false;
    std::vector<Tablet> tablets;
  };
  struct Key {
    std::string bytes;
    TableId table;
    uint64_t shown = 0;                    ///< the newest version that somebody was told of
    uint64_t removed = 0;                  ///< the newest version whose removal somebody was told of
    std::optional<ObservedValue> value;    ///< of version `shown`, if somebody was told
    std::vector<ObservedValue> may_write;  ///< by calls that have no answer
    bool may_increment = false;
    bool may_remove = false;
    bool is_any = false;  ///< nothing is demanded of it
  };
  uint64_t seed = 0;
  std::string when;
  std::vector<Disk> disks;
  std::vector<Owner> owners;
  std::vector<Key> keys;
  std::vector<uint32_t> parts;    ///< sets of machines (bits) that alone may answer
  std::optional<ServerId> alone;  ///< whose log need not be whole on disks
  bool was_deceived = false;      ///< a disk has lost what it had said was flushed
  bool is_power_failure = false;  ///< what is left where nothing survives that was not flushed
};

/// The counts of a judge, by the names in its answers.
inline constexpr std::array kJudgeCountNames = {
    "moments",  "disks", "replicas",    "open replicas",  "short replicas",    "logs", "partial logs", "open ends",
    "cut ends", "keys",  "absent keys", "power failures", "keys without power"};
using JudgeCounts = std::array<uint64_t, kJudgeCountNames.size()>;

struct JudgeVerdict {
  std::vector<std::string> failures;
  JudgeCounts counts = {};
};

/// A process that judges moments, one after the other: tests/frames/judge, which reads disks by docs/formats.md and
/// with nothing of the product's code. It is started by the first question and ends with this object.
///
/// Draws nothing and takes no simulated time: runs are the same with and without it.
class FrameJudge {
 public:
  /// @param program  its path
  explicit FrameJudge(std::string program) : program_(std::move(program)) {}
  FrameJudge(const FrameJudge&) = delete;
  FrameJudge& operator=(const FrameJudge&) = delete;
  ~FrameJudge();

  /// Waits for the verdict. A judge that ends, or says what makes no sense, is a failure.
  JudgeVerdict judge(const JudgedMoment& moment);

 private:
  bool start();
  bool send(const JudgedMoment& moment);
  bool write(const void* bytes, size_t count);
  std::optional<std::string> readLine();

  std::string program_;
  int process_ = 0;
  int to_ = -1;
  int from_ = -1;
  std::string rest_;  ///< read and not used yet
};

}  // namespace ramcore::sim
