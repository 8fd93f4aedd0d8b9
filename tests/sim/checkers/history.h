#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ramcore::sim {

/// A key of the workload. The history works with numbers; workload/generator.h turns them into key bytes and back.
using HistoryKey = uint64_t;

/// What a client wrote or read. A value of exactly 8 bytes is the little-endian integer itself (so that increments can
/// be followed), any other value is a 64-bit fingerprint of its bytes.
struct ObservedValue {
  uint64_t bits = 0;
  bool is_integer = false;

  bool operator==(const ObservedValue&) const = default;
};

enum class OperationKind : uint8_t {
  Read,
  Write,
  Remove,
  Increment,
  ScanRead,  ///< what a scan says about one key; behaves as a read somewhere between the scan's start and end
};

/// On what a call insists. Absence counts as version 0 for the two conditions on versions.
enum class ConditionKind : uint8_t { None, MustExist, MustNotExist, VersionEquals, VersionNotGreater };

struct Condition {
  ConditionKind kind = ConditionKind::None;
  uint64_t version = 0;  ///< for the two conditions on versions

  bool operator==(const Condition&) const = default;
};

/// How a call ended, as its client was told.
enum class Outcome : uint8_t {
  Ok,
  NotFound,      ///< there was no such object
  ObjectExists,  ///< condition MustNotExist refused
  WrongVersion,  ///< condition on the version refused
  TypeMismatch,  ///< increment of a value that is not 8 bytes
  Unknown,       ///< still running, timed out or lost: may take effect at any time after its invocation, or never
  NotRun,        ///< the client was told for certain that nothing happened (memory full, ...): left out of every check
};

/// `return_order` of an operation that never came back.
inline constexpr uint64_t kNeverReturned = ~uint64_t{0};

/// One call on one key as its client saw it. Each part of a multi-operation is an operation of its own: invoke all
/// parts before finishing the first, since multi-operations promise nothing about order.
struct Operation {
  uint32_t process = 0;  ///< the client
  HistoryKey key = 0;
  OperationKind kind = OperationKind::Read;
  Condition condition = {};
  ObservedValue argument = {};  ///< Write: the value
  uint64_t delta = 0;           ///< Increment: added with wrap-around (two's complement, so decrements work too)

  Outcome outcome = Outcome::Unknown;
  ObservedValue result = {};  ///< Read, ScanRead: the value; Increment: the sum
  /// 0 = the client was not told. Write, Increment: the version created. Read, ScanRead: the version read. Remove: the
  /// version removed. Refusals: the version that was there.
  uint64_t version = 0;

  /// Positions in the sequence of all events of the history. If A's return comes before B's invocation, A took effect
  /// first. Times cannot say this: many events share one instant of simulated time.
  uint64_t invoke_order = 0;
  uint64_t return_order = kNeverReturned;  ///< meaningless while the outcome is Unknown: treated as "never"
  uint64_t invoke_time_ns = 0;             ///< for people only
  uint64_t return_time_ns = 0;             ///< for people only; 0 = never

  /// True if the client knows what happened.
  bool isSettled() const { return outcome != Outcome::Unknown; }
  /// The return's position, or "never" for an unknown outcome.
  uint64_t end() const { return isSettled() ? return_order : kNeverReturned; }
  bool isRead() const { return kind == OperationKind::Read || kind == OperationKind::ScanRead; }
  /// Wrote a version for certain.
  bool created() const {
    return outcome == Outcome::Ok && (kind == OperationKind::Write || kind == OperationKind::Increment);
  }
  /// Read, removed or bumped into a version that somebody else must have created.
  bool observedVersion() const {
    if (version == 0 || created()) return false;
    return outcome == Outcome::Ok || outcome == Outcome::ObjectExists || outcome == Outcome::WrongVersion;
  }
};

/// What an answer carried; fields that do not apply stay at their defaults.
struct Answer {
  Outcome outcome = Outcome::Ok;
  ObservedValue result = {};
  uint64_t version = 0;
};

/// The record of everything clients asked and were told, in the order in which it happened.
///
/// Checkers know only this. One thread. Memory: about 130 bytes an operation.
class History {
 public:
  /// The next position in the sequence of events; for records kept outside (scans), so that they can be compared.
  uint64_t tick() { return ++last_order_; }

  /// Adds a call that starts now. Fills in the invocation's position and time and leaves the outcome Unknown.
  /// @return its index in operations(), for finish().
  size_t invoke(Operation call, uint64_t now_ns);

  /// Records the answer. Call at most once; a call never finished stays Unknown. An answer Unknown keeps it open.
  void finish(size_t index, const Answer& answer, uint64_t now_ns);

  /// Adds an operation with all fields as they are (orders included).
  void add(const Operation& operation);

  const std::vector<Operation>& operations() const { return operations_; }
  /// How many answers were recorded.
  uint64_t finishedCount() const { return finished_; }

  /// Every key somebody called, ascending.
  std::vector<HistoryKey> keys() const;

  /// The operations of one key as indexes into operations(), in order of invocation. Operations with the outcome NotRun
  /// and reads that never came back say nothing and are left out.
  std::vector<size_t> operationsOf(HistoryKey key) const;

  /// All keys with their operations (as operationsOf), ascending by key, in one pass.
  std::vector<std::pair<HistoryKey, std::vector<size_t>>> byKey() const;

 private:
  std::vector<Operation> operations_;
  uint64_t last_order_ = 0;
  uint64_t finished_ = 0;
};

/// "[12.345 ms .. 13.000 ms] client 3: write(0x1f, if version = 7) -> ok, version 9". One line without its end.
std::string describe(const Operation& operation);
/// "integer 5" or "value 0x001f".
std::string describe(const ObservedValue& value);
std::string describe(const Condition& condition);
const char* name(OperationKind kind);
const char* name(Outcome outcome);

}  // namespace ramcore::sim
