#include "sim/checkers/exactly_once.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace ramcore::sim {
namespace {

using Operations = std::vector<const Operation*>;

/// A value that was seen or created at a version, by an operation or in the end state.
struct Sighting {
  ObservedValue value;
  uint64_t version = 0;
  uint64_t invoke_order = kNeverReturned;
  uint64_t return_order = kNeverReturned;
  const Operation* operation = nullptr;  // null: the end state
  bool is_creator = false;

  static Sighting by(const Operation& operation) {
    const bool is_write = operation.kind == OperationKind::Write;
    return {is_write ? operation.argument : operation.result,
            operation.version,
            operation.invoke_order,
            operation.return_order,
            &operation,
            !operation.isRead()};
  }
  std::string text() const {
    if (operation != nullptr) return describe(*operation);
    return "at the end: " + describe(value) + ", version " + std::to_string(version);
  }
};

class KeyCheck {
 public:
  KeyCheck(HistoryKey key, const Operations& operations, const std::map<uint64_t, HistoryKey>& home_of_value,
           const FinalObject* final_object, std::vector<std::string>& violations)
      : key_(key),
        operations_(operations),
        home_of_value_(home_of_value),
        final_object_(final_object),
        violations_(violations) {}

  void run() {
    collectSightings();
    for (const Sighting& sighting : sightings_) checkOrigin(sighting);
    checkVersionsOfValues();
    checkValuesOfVersions();
    if (isPureCounter()) {
      for (const Sighting& sighting : sightings_) checkSum(sighting);
      checkCounterIsThere();
    }
  }

 private:
  void report(const std::string& what) { violations_.push_back("key " + std::to_string(key_) + ": " + what); }

  void collectSightings() {
    for (const Operation* operation : operations_) {
      if (operation->isRead() && operation->outcome == Outcome::Ok) sightings_.push_back(Sighting::by(*operation));
    }
    if (final_object_ == nullptr || !final_object_->present) return;
    Sighting at_the_end;
    at_the_end.value = final_object_->value;
    at_the_end.version = final_object_->version;
    sightings_.push_back(at_the_end);
  }

  void checkOrigin(const Sighting& sighting) {
    if (sighting.value.is_integer) {
      checkIntegerOrigin(sighting);
      return;
    }
    const Operation* writer = nullptr;
    for (const Operation* operation : operations_) {
      if (operation->kind == OperationKind::Write && operation->argument == sighting.value) writer = operation;
    }
    if (writer == nullptr) {
      const auto home = home_of_value_.find(sighting.value.bits);
      report("value from nowhere, " +
             (home == home_of_value_.end() ? std::string("nobody wrote it")
                                           : "it was written to key " + std::to_string(home->second)) +
             ": " + sighting.text());
    } else if (writer->isSettled() && writer->outcome != Outcome::Ok) {
      report("value of a write that was refused: " + sighting.text() + "; the write: " + describe(*writer));
    } else if (writer->invoke_order > sighting.return_order) {
      report("value read before it was written: " + sighting.text() + "; the write: " + describe(*writer));
    }
  }

  /// Without increments an integer has a write of its own like any value.
  void checkIntegerOrigin(const Sighting& sighting) {
    for (const Operation* operation : operations_) {
      if (operation->kind == OperationKind::Increment) return;
      if (operation->kind == OperationKind::Write && operation->argument == sighting.value) return;
    }
    report("value from nowhere, nobody wrote or incremented an integer: " + sighting.text());
  }

  /// Everything that ties a value to a version.
  std::vector<Sighting> sightingsAndCreations() const {
    std::vector<Sighting> all = sightings_;
    for (const Operation* operation : operations_) {
      if (operation->created()) all.push_back(Sighting::by(*operation));
    }
    std::erase_if(all, [](const Sighting& sighting) { return sighting.version == 0; });
    return all;
  }

  /// A write that runs again creates its value again at a higher version.
  void checkVersionsOfValues() {
    std::vector<Sighting> all = sightingsAndCreations();
    std::erase_if(all, [](const Sighting& sighting) { return sighting.value.is_integer; });
    std::sort(all.begin(), all.end(), [](const Sighting& a, const Sighting& b) {
      return std::tuple(a.value.bits, a.version, a.invoke_order) < std::tuple(b.value.bits, b.version, b.invoke_order);
    });
    for (size_t i = 1; i < all.size(); ++i) {
      if (all[i].value == all[i - 1].value && all[i].version != all[i - 1].version) {
        report("a write ran twice, its value has two versions: " + all[i - 1].text() + "; and: " + all[i].text());
      }
    }
  }

  void checkValuesOfVersions() {
    std::vector<Sighting> all = sightingsAndCreations();
    std::sort(all.begin(), all.end(), [](const Sighting& a, const Sighting& b) {
      return std::tuple(a.version, !a.is_creator, a.invoke_order) <
             std::tuple(b.version, !b.is_creator, b.invoke_order);
    });
    for (size_t i = 1; i < all.size(); ++i) {
      const Sighting& before = all[i - 1];
      const Sighting& sighting = all[i];
      if (sighting.version != before.version) continue;
      if (sighting.is_creator) {
        report("two calls were given one version: " + before.text() + "; and: " + sighting.text());
      } else if (sighting.value != before.value) {
        report("one version has two values: " + before.text() + "; and: " + sighting.text());
      }
    }
  }

  bool isPureCounter() const {
    bool has_increment = false;
    for (const Operation* operation : operations_) {
      if (operation->isRead()) continue;
      if (operation->kind != OperationKind::Increment) {
        if (operation->outcome == Outcome::Ok || operation->outcome == Outcome::Unknown) return false;
        continue;
      }
      has_increment = true;
    }
    return has_increment;
  }

  struct SumBounds {
    int64_t least = 0;
    int64_t most = 0;
  };

  /// The values that a counter can have when it is read between these two events.
  SumBounds boundsBetween(uint64_t invoke_order, uint64_t return_order) const {
    SumBounds bounds;
    for (const Operation* operation : operations_) {
      if (operation->kind != OperationKind::Increment || operation->invoke_order > return_order) continue;
      if (operation->isSettled() && operation->outcome != Outcome::Ok) continue;
      const auto delta = static_cast<int64_t>(operation->delta);
      const bool is_certain = operation->end() < invoke_order;
      if (is_certain || delta < 0) bounds.least += delta;
      if (is_certain || delta > 0) bounds.most += delta;
    }
    return bounds;
  }

  void checkSum(const Sighting& sighting) {
    const SumBounds bounds = boundsBetween(sighting.invoke_order, sighting.return_order);
    const auto sum = static_cast<int64_t>(sighting.value.bits);
    const std::string range = std::to_string(bounds.least) + " .. " + std::to_string(bounds.most);
    if (!sighting.value.is_integer) report("a counter holds no integer: " + sighting.text());
    if (sighting.value.is_integer && sum > bounds.most) {
      report("an increment ran twice, at most " + range + " is possible: " + sighting.text());
    }
    if (sighting.value.is_integer && sum < bounds.least) {
      report("an increment was lost, at least " + range + " is due: " + sighting.text());
    }
  }

  void checkCounterIsThere() {
    if (final_object_ == nullptr || final_object_->present) return;
    for (const Operation* operation : operations_) {
      if (!operation->created()) continue;
      report("a counter nobody removed is gone at the end, after " + describe(*operation));
      return;
    }
  }

  HistoryKey key_;
  const Operations& operations_;
  const std::map<uint64_t, HistoryKey>& home_of_value_;
  const FinalObject* final_object_;
  std::vector<std::string>& violations_;
  std::vector<Sighting> sightings_;
};

}  // namespace

std::vector<std::string> checkExactlyOnce(const History& history, const std::vector<FinalObject>& final_objects) {
  std::map<uint64_t, HistoryKey> home_of_value;
  for (const Operation& operation : history.operations()) {
    const bool is_write = operation.kind == OperationKind::Write && !operation.argument.is_integer;
    if (is_write) home_of_value.emplace(operation.argument.bits, operation.key);
  }
  std::map<HistoryKey, Operations> operations_of_key;
  for (const auto& [key, indexes] : history.byKey()) {
    Operations& operations = operations_of_key[key];
    for (const size_t index : indexes) operations.push_back(&history.operations()[index]);
  }
  std::map<HistoryKey, const FinalObject*> final_of_key;
  for (const FinalObject& object : final_objects) {
    final_of_key[object.key] = &object;
    operations_of_key.try_emplace(object.key);  // an object at a key nobody called comes from nowhere
  }
  std::vector<std::string> violations;
  for (const auto& [key, operations] : operations_of_key) {
    const auto final_object = final_of_key.find(key);
    KeyCheck(key, operations, home_of_value, final_object == final_of_key.end() ? nullptr : final_object->second,
             violations)
        .run();
  }
  return violations;
}

}  // namespace ramcore::sim
