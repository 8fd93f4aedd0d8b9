#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "durability/recorder.h"
#include "ramcore/client.h"

namespace durability {

struct WorkloadSettings {
  std::vector<std::string> coordinators;
  std::string cluster = "ramcore";
  std::string secret_file;
  ramcore::DpdkOptions dpdk;  ///< with ports: one client, which reads everything as well
  std::string table = "durability";
  uint32_t tablets = 0;  ///< 0: one per server
  uint32_t workers = 16;
  uint32_t clients = 4;          ///< that the workers share
  uint32_t registers = 300;      ///< keys that are written, removed, read
  uint32_t counters = 100;       ///< keys that are incremented, read
  uint32_t rate = 4000;          ///< calls per second, of all workers together
  uint32_t timeout_ms = 10'000;  ///< of a call; one in fifty has a hundredth of it
  uint64_t seed = 1;
  std::string journal = "durability-journal.ndjson";
};

/// Workers that call the cluster, each one call at a time, with keys that all of them share.
class Workload {
 public:
  /// Connects and creates the table. Ends the process if it cannot.
  explicit Workload(const WorkloadSettings& settings);
  ~Workload();

  Recorder& recorder() { return *recorder_; }
  /// Returns when no call is running.
  void pause();
  void resume();
  /// Reads every key once, while paused. Gives a line for each key without an answer.
  std::vector<std::string> readAll(std::chrono::milliseconds timeout);

 private:
  void work(uint32_t worker);
  ramcore::Client connect() const;

  const WorkloadSettings settings_;
  std::vector<ramcore::Client> clients_;  // the last one reads everything
  ramcore::Table table_;
  std::unique_ptr<Recorder> recorder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool paused_ = true;
  bool stopping_ = false;
  uint32_t running_ = 0;  // workers in a call
  std::vector<std::thread> threads_;
};

}  // namespace durability
