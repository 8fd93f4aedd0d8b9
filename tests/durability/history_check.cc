#include "durability/history_check.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace durability {
namespace {

constexpr size_t kReportsMax = 5;  // of one key: what follows from one loss says nothing new

/// The highest of some numbers whose time was before another one: `add` all, then `seal`, then ask.
class Highest {
 public:
  void add(int64_t time_ns, uint64_t number) { points_.emplace_back(time_ns, number); }
  void seal() {
    std::sort(points_.begin(), points_.end());
    for (size_t i = 1; i < points_.size(); ++i) {
      points_[i].second = std::max(points_[i].second, points_[i - 1].second);
    }
  }
  /// 0 if there is none.
  uint64_t before(int64_t time_ns) const {
    const auto end = std::lower_bound(points_.begin(), points_.end(), std::pair(time_ns, uint64_t{0}));
    return end == points_.begin() ? 0 : std::prev(end)->second;
  }

 private:
  std::vector<std::pair<int64_t, uint64_t>> points_;
};

/// The state of the key that the answer to a call shows for some moment of its interval.
struct Look {
  const Call* call;
  uint64_t version = 0;                // 0: absent
  const std::string* value = nullptr;  // null: only the version is known
};

class KeyCheck {
 public:
  explicit KeyCheck(const std::vector<Call>& calls) : calls_(calls) {}

  std::vector<std::string> run() {
    for (const Call& call : calls_) {
      collect(call);
    }
    known_.seal();
    started_.seal();
    removes_.seal();
    for (const auto& [end_ns, start_ns, removed] : absences_) {
      gone_.add(end_ns, std::max(removed, known_.before(start_ns)));
    }
    gone_.seal();
    std::sort(acknowledged_increments_.begin(), acknowledged_increments_.end());
    std::sort(possible_increments_.begin(), possible_increments_.end());
    for (const Call& call : calls_) {
      if (call.isProducer() && call.isOk()) checkMade(call, call.version);
    }
    for (const Look& look : looks_) {
      if (look.version == 0) {
        checkAbsent(look);
      } else {
        checkFound(look);
      }
    }
    checkCounterOrder();
    return std::move(reports_);
  }

 private:
  struct Absence {
    int64_t end_ns;
    int64_t start_ns;
    uint64_t removed;
  };

  void collect(const Call& call) {
    const bool is_ok = call.isOk();
    if (call.kind == Kind::Write) producers_.emplace(call.argument, &call);
    if (call.fate() == Fate::Unanswered) {
      if (call.kind == Kind::Remove) first_open_remove_ns_ = std::min(first_open_remove_ns_, call.start_ns);
      if (call.isProducer()) first_open_producer_ns_ = std::min(first_open_producer_ns_, call.start_ns);
    }
    if (call.kind == Kind::Increment && call.fate() != Fate::Refused) possible_increments_.push_back(call.start_ns);
    if (call.fate() != Fate::Answered) return;

    if (call.isProducer() && is_ok) {
      known_.add(call.end_ns, call.version);
      started_.add(call.end_ns, static_cast<uint64_t>(call.start_ns));
      if (!made_.emplace(call.version, &call).second) report(call, "has the version of another call");
      const std::string& value = call.kind == Kind::Write ? call.argument : call.result;
      note(call, call.version, value);
      if (call.kind == Kind::Increment) acknowledged_increments_.push_back(call.end_ns);
    }
    if (call.kind == Kind::Remove && is_ok && call.version != 0) {
      started_.add(call.end_ns, static_cast<uint64_t>(call.start_ns));
      removes_.add(call.start_ns, call.version);
      absences_.push_back({call.end_ns, call.start_ns, call.version});
    }
    if (const auto looked = lookOf(call)) {
      looks_.push_back(*looked);
      if (looked->version == 0) {
        absences_.push_back({call.end_ns, call.start_ns, 0});
      } else {
        known_.add(call.end_ns, looked->version);
        if (looked->value != nullptr) note(call, looked->version, *looked->value);
      }
    }
  }

  static std::optional<Look> lookOf(const Call& call) {
    if (call.status == "NotFound") return Look{&call};
    if (!call.isOk()) return Look{&call, call.version};  // a failed condition tells the present version
    if (call.kind == Kind::Read) return Look{&call, call.version, &call.result};
    if (call.kind == Kind::Remove) return Look{&call, call.version};
    if (call.demand == Demand::MustNotExist) return Look{&call};
    if (call.demand == Demand::VersionEquals) return Look{&call, call.demanded_version};
    return std::nullopt;
  }

  // Rule 3.
  void note(const Call& call, uint64_t version, const std::string& value) {
    const auto [by_version, is_new] = values_.emplace(version, value);
    if (!is_new && by_version->second != value) {
      report(call, "version " + std::to_string(version) + " is '" + value + "' and '" + by_version->second + "'");
    }
    const auto [by_value, is_first] = versions_.emplace(value, version);
    if (!is_first && by_value->second != version) {
      report(call,
             "'" + value + "' has versions " + std::to_string(version) + " and " + std::to_string(by_value->second));
    }
  }

  // Rule 6, and rule 8 of an increment.
  void checkMade(const Call& call, uint64_t version) {
    const uint64_t known = known_.before(call.start_ns);
    if (version <= known) {
      report(call, "made version " + std::to_string(version) + " where " + std::to_string(known) + " was known");
    }
    if (call.kind == Kind::Increment) checkCounter(call, call.result, 1);
  }

  // Rules 1, 2, 4, 5, 8.
  void checkFound(const Look& look) {
    const Call& call = *look.call;
    const uint64_t known = known_.before(call.start_ns);
    if (look.version < known) {
      report(call, "found version " + std::to_string(look.version) + " where " + std::to_string(known) + " was known");
    }
    if (look.version <= gone_.before(call.start_ns)) {
      report(call, "found version " + std::to_string(look.version) + ", which was gone");
    }
    const Call* producer = producerOf(look);
    if (producer == nullptr) return;
    if (producer->fate() == Fate::Refused) return report(call, "found what was refused by call " + idOf(*producer));
    if (producer->start_ns > call.end_ns) return report(call, "found what was written only later");
    if (producer->fate() == Fate::Unanswered) return checkMade(*producer, look.version);
    if (started_.before(call.start_ns) > static_cast<uint64_t>(producer->end_ns)) {
      report(call, "found an older value than the last acknowledged one");
    }
  }

  // The call that made what was found; null: cannot be said, or there is none, which is reported.
  const Call* producerOf(const Look& look) {
    const Call& call = *look.call;
    if (isCounter(call.key)) {
      if (look.value != nullptr) checkCounter(call, *look.value, 0);
      return nullptr;
    }
    if (look.value != nullptr) {
      const auto found = producers_.find(*look.value);
      if (found != producers_.end()) return found->second;
      report(call, "found '" + *look.value + "', which nobody wrote");
      return nullptr;
    }
    const auto made = made_.find(look.version);
    if (made != made_.end()) return made->second;
    const auto seen = values_.find(look.version);
    if (seen != values_.end()) {
      const auto found = producers_.find(seen->second);
      if (found != producers_.end()) return found->second;
    }
    if (first_open_producer_ns_ > call.end_ns) report(call, "tells of a version that nobody made");
    return nullptr;
  }

  // Rule 7.
  void checkAbsent(const Look& look) {
    const Call& call = *look.call;
    const uint64_t known = known_.before(call.start_ns);
    if (known == 0 || first_open_remove_ns_ <= call.end_ns) return;
    if (removes_.before(call.end_ns + 1) >= known) return;
    report(call, "found nothing, but version " + std::to_string(known) + " was known and nobody removed it");
  }

  // Rule 8. @param own  what the call itself adds.
  void checkCounter(const Call& call, const std::string& text, uint64_t own) {
    const uint64_t value = std::strtoull(text.c_str(), nullptr, 10);
    const auto least = static_cast<uint64_t>(
        std::lower_bound(acknowledged_increments_.begin(), acknowledged_increments_.end(), call.start_ns) -
        acknowledged_increments_.begin());
    const auto most =
        static_cast<uint64_t>(std::upper_bound(possible_increments_.begin(), possible_increments_.end(), call.end_ns) -
                              possible_increments_.begin());
    if (value >= least + own && value <= most) return;
    report(call, "counted " + text + ", not between " + std::to_string(least + own) + " and " + std::to_string(most));
  }

  void checkCounterOrder() {
    if (calls_.empty() || !isCounter(calls_.front().key)) return;
    uint64_t last = 0;
    for (const auto& [version, text] : values_) {
      const uint64_t value = std::strtoull(text.c_str(), nullptr, 10);
      if (value <= last) report(calls_.front(), "counter does not grow at version " + std::to_string(version));
      last = value;
    }
  }

  static std::string idOf(const Call& call) { return std::to_string(call.id); }
  void report(const Call& call, const std::string& what) {
    if (reports_.size() < kReportsMax) reports_.push_back("key " + call.key + ", call " + idOf(call) + ": " + what);
  }

  const std::vector<Call>& calls_;
  std::vector<std::string> reports_;
  std::vector<Look> looks_;
  std::vector<Absence> absences_;
  std::unordered_map<std::string, const Call*> producers_;  // of values: all writes
  std::unordered_map<uint64_t, const Call*> made_;          // of versions: acknowledged
  std::map<uint64_t, std::string> values_;                  // of versions
  std::unordered_map<std::string, uint64_t> versions_;      // of values
  Highest known_;                                           // versions, by when an answer told them
  Highest started_;                                         // starts of acknowledged mutations, by their ends
  Highest removes_;                                         // removed versions, by the start of the remove
  Highest gone_;                                            // versions that are gone, by when an answer told it
  int64_t first_open_remove_ns_ = kOpen;
  int64_t first_open_producer_ns_ = kOpen;
  std::vector<int64_t> acknowledged_increments_;  // ends
  std::vector<int64_t> possible_increments_;      // starts
};

}  // namespace

std::vector<std::string> checkKey(const std::vector<Call>& calls) { return KeyCheck(calls).run(); }

}  // namespace durability
