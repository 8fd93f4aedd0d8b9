#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "client/cluster_client.h"
#include "rpc/dispatch.h"
#include "runtime/sim/sim_clock.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_transport.h"
#include "wire/master_messages.h"

namespace ramcore::client {

/// What a fake server does with the next mutation it is asked for.
enum class Fate {
  Serve,
  ServeAndCut,  ///< carry it out, and lose the answer with the session
  Hold,         ///< say nothing
  WrongServer,  ///< refuse without carrying it out
  RetryLater,
  LeaseExpired,
  Unknown,   ///< carry it out, and answer that it may have happened
  Corrupt,   ///< the object is lost; nothing is carried out
  Nonsense,  ///< carry it out, and answer with a status that does not exist
};

class FakeCluster;

/// A process of the simulated network that is stepped by FakeCluster.
struct FakeProcess {
  FakeProcess(FakeCluster& cluster, const std::string& node, transport::Role role, uint64_t id);

  FakeCluster& cluster;
  std::string node;
  runtime::SimClock clock;
  struct NoSleep final : transport::Sleeper {
    void sleep(int64_t) override {}
    void wake() override {}
    void watch(int) override {}
    void forget(int) override {}
  } sleeper;
  transport::Identity identity;
  transport::SimTransport transport;
  rpc::Dispatch dispatch;
  std::unique_ptr<transport::Endpoint> endpoint;
};

/// A master that keeps its objects in a map, and answers repeated calls from a record.
struct FakeServer : FakeProcess {
  FakeServer(FakeCluster& cluster, const std::string& node, uint64_t id);

  struct Stored {
    std::string value;
    Version version = 0;
  };
  struct Seen {
    ClientId client;
    Sequence sequence;
    Sequence acknowledged;
  };

  void read(rpc::Request request);
  void write(rpc::Request request);
  void increment(rpc::Request request);
  void multiRead(rpc::Request request);
  void multiMutate(rpc::Request request);
  void scan(rpc::Request request);
  void releaseHeld();

  Fate nextFate();
  bool owns(TableId table, std::string_view key) const;
  std::pair<Status, Version> mutate(const Seen& identity, const std::string& key,
                                    const std::optional<std::string>& value, wire::Condition condition,
                                    Version condition_version);

  std::map<std::string, Stored> objects;
  std::map<std::pair<uint64_t, uint64_t>, std::pair<Status, Version>> results;
  std::vector<Seen> seen;  // every mutation that arrived
  uint64_t carried_out = 0;
  Version last_version = 0;
  std::deque<Fate> fates;  // of the next mutations; Serve when empty
  std::vector<rpc::Request> held;
  bool answer_reads = true;
  uint32_t put_off = 0;  // this many of the next calls get the answer of a server whose lease is over: try again
  bool putsOff(rpc::Request& request);
  std::optional<wire::MovedTo> moved;  // what is said of keys that are elsewhere
  bool owns_any_epoch = false;         // answers under any epoch
  void refuseElsewhere(rpc::Request request);
  uint32_t scan_objects_max = 3;
};

/// A simulated network with a coordinator, two servers that own half of the hashes each, and one client.
class FakeCluster {
 public:
  explicit FakeCluster(uint64_t seed = 1);
  ~FakeCluster();

  /// Steps everything until `done()`; false if that does not happen.
  template <typename Done>
  bool runUntil(Done done) {
    for (int i = 0; i < 400'000; ++i) {
      if (done()) return true;
      round();
    }
    return false;
  }
  template <typename T>
  T await(runtime::Task<T> task) {
    const bool ended = runUntil([&] { return task.isDone(); });
    RC_CHECK_MSG(ended, "the call does not end");
    return task.take();
  }
  void passTime(int64_t duration_ns);
  void round();
  int64_t in(int64_t duration_ns) { return client_process->clock.nowNs() + duration_ns; }
  FakeServer& ownerOf(const std::string& key) {
    return hashKey(table, asBytes(key)) >> 63 == 0 ? *servers[0] : *servers[1];
  }

  // The coordinator's calls.
  void createTable(rpc::Request request);
  void dropTable(rpc::Request request);
  void listTables(rpc::Request request);
  void getTablets(rpc::Request request);
  void openClient(rpc::Request request);
  void renewClient(rpc::Request request);
  void closeClient(rpc::Request request);

  runtime::SimScheduler scheduler;
  transport::SimNetwork network;
  std::unique_ptr<FakeProcess> coordinator;
  std::vector<std::unique_ptr<FakeServer>> servers;
  std::unique_ptr<FakeProcess> client_process;
  runtime::SeededEntropy entropy;
  std::unique_ptr<rpc::Caller> caller;
  std::unique_ptr<ClusterClient> client;

  /// If set: the next creation or drop is carried out, its answer is lost with the session, and this runs once.
  std::function<void()> on_lost_answer;
  bool change_is_slow = false;  // drops are stored, and answered before they are finished
  void loseChangeAnswer();

  TableId table;  // 0: there is none
  uint32_t last_table = 6;
  uint64_t table_nonce = 0;
  std::string table_name;
  uint64_t epoch = 1;
  bool all_at_second = false;  // the second server owns everything
  uint64_t tablet_questions = 0;
  Status tablets_status = Status::Ok;  // another status: the answer to questions about tablets
  bool answer_tablets = true;          // false: questions wait in `held_questions`
  std::vector<rpc::Request> held_questions;
  void answerHeldQuestions();
  bool renews_clients = true;  // false: their leases are over
  bool client_stands_still = false;
  uint64_t clients_opened = 0;
  uint64_t renewals = 0;
  int64_t client_lease_ns = 3 * runtime::kNanosPerSecond;
};

}  // namespace ramcore::client
