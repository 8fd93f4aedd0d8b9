#include "sim/checkers/scan_checker.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace ramcore::sim {
namespace {

using Operations = std::vector<const Operation*>;

std::string describeScan(const ScanRecord& scan) {
  char text[96];
  std::snprintf(text, sizeof text, "[%.3f ms .. %.3f ms] scan of client %u",
                static_cast<double>(scan.invoke_time_ns) / 1e6, static_cast<double>(scan.return_time_ns) / 1e6,
                scan.process);
  return text;
}

std::string describeObject(const ScannedObject& object) {
  return "key " + std::to_string(object.key) + " with " + describe(object.value) + ", version " +
         std::to_string(object.version);
}

bool mayHaveCreated(const Operation& operation) {
  const bool is_creator = operation.kind == OperationKind::Write || operation.kind == OperationKind::Increment;
  return is_creator && (operation.outcome == Outcome::Ok || operation.outcome == Outcome::Unknown);
}

bool mayHaveRemoved(const Operation& operation) {
  return operation.kind == OperationKind::Remove &&
         (operation.outcome == Outcome::Ok || operation.outcome == Outcome::Unknown);
}

/// True if the call proves that the object was there, at the end of the call at the latest.
bool sawObject(const Operation& operation) {
  return operation.created() || (operation.isRead() && operation.outcome == Outcome::Ok);
}

/// The object was surely gone at some moment of this call.
bool sawAbsence(const Operation& operation) {
  if (operation.kind == OperationKind::Remove)
    return operation.outcome == Outcome::Ok || operation.outcome == Outcome::NotFound;
  return operation.isRead() && operation.outcome == Outcome::NotFound;
}

/// A took effect before B in every order: by real time, or because its version is lower.
bool surelyBefore(const Operation& a, const Operation& b) {
  if (a.end() < b.invoke_order) return true;
  return a.isSettled() && b.isSettled() && a.version != 0 && b.version != 0 && a.version < b.version;
}

/// A call that proves that the object was there during the whole scan: it saw the object before the scan began, and no
/// remove can have come after it and before the scan's end. nullptr: there is none.
const Operation* proofOfPresence(const Operations& operations, const ScanRecord& scan) {
  for (const Operation* seen : operations) {
    if (!sawObject(*seen) || seen->end() > scan.invoke_order) continue;
    const bool may_be_removed = std::any_of(operations.begin(), operations.end(), [&](const Operation* other) {
      return mayHaveRemoved(*other) && other->invoke_order < scan.return_order && !surelyBefore(*other, *seen);
    });
    if (!may_be_removed) return seen;
  }
  return nullptr;
}

/// The object was surely gone before the scan began, and nothing can have created it between that and the scan's end.
bool isSurelyAbsent(const Operations& operations, const ScanRecord& scan) {
  const auto mayRecreate = [&](const Operation* gone) {
    return std::any_of(operations.begin(), operations.end(), [&](const Operation* other) {
      if (!mayHaveCreated(*other) || other->invoke_order > scan.return_order) return false;
      if (gone == nullptr) return true;
      // The version a remove names is the one it removed: what created that, or a lower one, came before it.
      const bool was_removed =
          gone->outcome == Outcome::Ok && other->created() && other->version != 0 && other->version <= gone->version;
      return !was_removed && other->end() >= gone->invoke_order;
    });
  };
  if (!mayRecreate(nullptr)) return true;
  return std::any_of(operations.begin(), operations.end(), [&](const Operation* gone) {
    return sawAbsence(*gone) && gone->end() < scan.invoke_order && !mayRecreate(gone);
  });
}

/// A call that proves the object's version was replaced before its page was asked for, or did not exist when the page
/// had come; null if there is none.
const Operation* proofOfAge(const Operations& operations, const ScannedObject& object) {
  for (const Operation* other : operations) {
    if (other->version == 0 || !other->isSettled()) continue;
    const bool names_version = other->created() || other->observedVersion();
    if (names_version && other->version > object.version && other->end() < object.invoke_order) return other;
    const bool removed_it = other->kind == OperationKind::Remove && other->outcome == Outcome::Ok;
    if (removed_it && other->version == object.version && other->end() < object.invoke_order) return other;
    if (other->created() && other->version == object.version && other->invoke_order > object.return_order) return other;
  }
  return nullptr;
}

std::map<HistoryKey, Operations> groupByKey(const History& history, const std::vector<HistoryKey>& keys) {
  std::map<HistoryKey, Operations> groups;
  for (const HistoryKey key : keys) groups.try_emplace(key);
  for (const Operation& operation : history.operations()) {
    const auto group = groups.find(operation.key);
    // The scans' own reads are what is judged, so they are no evidence.
    if (group != groups.end() && operation.kind != OperationKind::ScanRead && operation.outcome != Outcome::NotRun) {
      group->second.push_back(&operation);
    }
  }
  return groups;
}

std::vector<std::string> checkOne(const std::map<HistoryKey, Operations>& operations_of_key, const ScanRecord& scan) {
  std::vector<std::string> violations;
  const std::string who = describeScan(scan);
  std::map<HistoryKey, const ScannedObject*> returned;
  for (const ScannedObject& object : scan.objects) {
    const auto [before, is_first] = returned.emplace(object.key, &object);
    if (!is_first) {
      violations.push_back(who + ": returned a key twice, " + describeObject(*before->second) + " and " +
                           describeObject(object));
    }
    const auto operations = operations_of_key.find(object.key);
    if (operations == operations_of_key.end()) {
      violations.push_back(who + ": object from nowhere, nobody used " + describeObject(object));
    } else if (isSurelyAbsent(operations->second, scan)) {
      violations.push_back(who + ": returned an object that was absent all the time, " + describeObject(object));
    } else if (const Operation* proof = proofOfAge(operations->second, object)) {
      violations.push_back(who + ": returned a value that was not current at any time of its page, " +
                           describeObject(object) + "; see " + describe(*proof));
    }
  }
  if (!scan.is_complete) return violations;
  for (const auto& [key, operations] : operations_of_key) {
    if (returned.contains(key)) continue;
    if (const Operation* proof = proofOfPresence(operations, scan)) {
      violations.push_back(who + ": missed key " + std::to_string(key) + ", present all the time since " +
                           describe(*proof));
    }
  }
  return violations;
}

}  // namespace

std::vector<std::string> checkScans(const History& history, std::span<const ScanRecord> scans,
                                    const std::vector<HistoryKey>& keys) {
  const std::map<HistoryKey, Operations> operations_of_key = groupByKey(history, keys);
  std::vector<std::string> violations;
  for (const ScanRecord& scan : scans) {
    for (std::string& line : checkOne(operations_of_key, scan)) violations.push_back(std::move(line));
  }
  return violations;
}

std::vector<std::string> checkScan(const History& history, const ScanRecord& scan,
                                   const std::vector<HistoryKey>& keys) {
  return checkScans(history, std::span(&scan, 1), keys);
}

void addScanReads(const ScanRecord& scan, const std::vector<HistoryKey>& keys, History& history) {
  std::vector<HistoryKey> returned;
  Operation read;
  read.process = scan.process;
  read.kind = OperationKind::ScanRead;
  for (const ScannedObject& object : scan.objects) {
    read.key = object.key;
    read.outcome = Outcome::Ok;
    read.result = object.value;
    read.version = object.version;
    read.invoke_order = object.invoke_order;
    read.return_order = object.return_order;
    read.invoke_time_ns = object.invoke_time_ns;
    read.return_time_ns = object.return_time_ns;
    history.add(read);
    returned.push_back(object.key);
  }
  if (!scan.is_complete) return;
  std::sort(returned.begin(), returned.end());
  for (const HistoryKey key : keys) {
    if (std::binary_search(returned.begin(), returned.end(), key)) continue;
    read.key = key;
    read.outcome = Outcome::NotFound;
    read.result = {};
    read.version = 0;
    read.invoke_order = scan.invoke_order;
    read.return_order = scan.return_order;
    read.invoke_time_ns = scan.invoke_time_ns;
    read.return_time_ns = scan.return_time_ns;
    history.add(read);
  }
}

}  // namespace ramcore::sim
