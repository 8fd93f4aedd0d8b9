#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace durability {

/// Of a call that has no certain answer: its effect may still come.
inline constexpr int64_t kOpen = std::numeric_limits<int64_t>::max();

enum class Kind : uint8_t { Read, Write, Remove, Increment };
enum class Demand : uint8_t { None, MustExist, MustNotExist, VersionEquals };

/// What the journal says about the outcome of a call.
enum class Fate : uint8_t {
  Answered,    ///< Ok, or a refusal that tells what is there (NotFound, WrongVersion, ...)
  Unanswered,  ///< a mutation that may have happened or may yet: OutcomeUnknown, or no end in the journal
  Refused,     ///< it did not happen and will not
};

/// One call of one client, as noted before it was made and after it ended. Times are of CLOCK_MONOTONIC. Values of
/// counters are written as decimal numbers.
struct Call {
  uint64_t id = 0;
  uint32_t client = 0;
  Kind kind = Kind::Read;
  Demand demand = Demand::None;
  uint64_t demanded_version = 0;
  std::string key;
  std::string argument;  ///< of a write: the value, used once; of an increment: how much

  int64_t start_ns = 0;
  int64_t end_ns = kOpen;  ///< of an unanswered call kOpen, whenever the client gave up
  std::string status;      ///< empty: no end was noted
  uint64_t version = 0;
  std::string result;  ///< of a read: the value; of an increment: after the addition

  bool isMutation() const { return kind != Kind::Read; }
  /// True if it leaves an object with a new version when it is carried out.
  bool isProducer() const { return kind == Kind::Write || kind == Kind::Increment; }
  bool isOk() const { return status == "Ok"; }
  Fate fate() const {
    if (status.empty() || status == "OutcomeUnknown") return isMutation() ? Fate::Unanswered : Fate::Refused;
    const bool tells = isOk() || status == "NotFound" || status == "ObjectExists" || status == "WrongVersion";
    return tells ? Fate::Answered : Fate::Refused;
  }
};

/// Counters have keys of their own: c0, c1, ... They are only read and incremented by 1.
inline bool isCounter(const std::string& key) { return !key.empty() && key.front() == 'c'; }

}  // namespace durability
