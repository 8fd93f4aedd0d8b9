#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/checkers/history.h"

namespace ramcore::sim {

/// One object that a scan returned, with the limits of the call (page) that brought it.
struct ScannedObject {
  HistoryKey key = 0;
  ObservedValue value = {};
  uint64_t version = 0;
  uint64_t invoke_order = 0;  ///< of the page's call, from History::tick()
  uint64_t return_order = 0;
  uint64_t invoke_time_ns = 0;
  uint64_t return_time_ns = 0;
};

/// One enumeration of the table as its client saw it, over all its pages.
struct ScanRecord {
  uint32_t process = 0;
  size_t table = 0;           ///< which, if there are several
  uint64_t invoke_order = 0;  ///< from History::tick(), before the first call
  uint64_t return_order = 0;  ///< after the last answer
  uint64_t invoke_time_ns = 0;
  uint64_t return_time_ns = 0;
  bool is_complete = false;  ///< the end of the table was reached; else what is missing proves nothing
  std::vector<ScannedObject> objects = {};
};

/// Checks what is certain from calls that do not overlap, and so can name the broken promise: no key twice; no key that
/// was surely absent all the time; every key that was surely present all the time; no value that was replaced before
/// its page was asked for, or written after its page had come.
///
/// @param keys  all keys of the table that the workload uses; an object at any other key comes from nowhere.
/// @return one line for each violation, without its end. Cost: operations + objects.
std::vector<std::string> checkScan(const History& history, const ScanRecord& scan, const std::vector<HistoryKey>& keys);
/// The same of several, which looks through the history once.
std::vector<std::string> checkScans(const History& history, std::span<const ScanRecord> scans,
                                    const std::vector<HistoryKey>& keys);

/// Adds to the history what the scan says about each key: an object returned is a read during its page's call; and a
/// key left out by a complete scan is a read that found nothing, at some time during the scan (exactly what "a key
/// present throughout is returned" means). After that the linearizability checker judges scans as strictly as reads,
/// overlapping calls included. Objects at keys that are not in `keys` are added too.
void addScanReads(const ScanRecord& scan, const std::vector<HistoryKey>& keys, History& history);

}  // namespace ramcore::sim
