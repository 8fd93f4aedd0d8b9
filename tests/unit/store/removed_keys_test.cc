/// Removed keys that wait to leave the index, on a server whose background work gets no turn.

#include <gtest/gtest.h>

#include "log/cleaning/cleaner.h"
#include "runtime/sim/sim_epoch.h"
#include "runtime/sim/sim_node.h"
#include "store/maintenance.h"

namespace ramcore::store {
namespace {

constexpr TableId kTable{3};
constexpr TabletEpoch kEpoch{1};

/// A replicator that reports as late as the test wants.
class LateReplicator final : public log::Replicator {
 public:
  void attach(log::ReplicationEvents& events) override { events_ = &events; }
  void open(const log::Segment& segment) override {
    head_ = &segment;
    events_->segmentOpened(segment.id());
  }
  void advance(const log::Segment& segment) override {
    if (!is_late_) events_->segmentDurable(segment.id(), segment.committedBytes());
  }
  void requestFlush(LogPosition) override {}
  void close(const log::Segment& segment) override {
    events_->segmentDurable(segment.id(), segment.committedBytes());
    events_->segmentClosed(segment.id());
  }
  void moved(const log::Segment&) override {}
  void free(SegmentId) override {}

  void setLate(bool is_late) {
    is_late_ = is_late;
    if (!is_late) advance(*head_);
  }

 private:
  log::ReplicationEvents* events_ = nullptr;
  const log::Segment* head_ = nullptr;
  bool is_late_ = false;
};

class RemovedKeys : public ::testing::Test {
 protected:
  RemovedKeys() {
    results_.connect(log_);
    store_.connect({log_, *index_, tablets_, results_, lease_, clock_});
    lease_.renewed(clock_.nowNs(), runtime::kNever / 2);
    reader_ = rcu_.registerThread();
    log_.maintain();
    RC_CHECK(tablets_.add({.id = TabletId(1),
                           .table = kTable,
                           .range = {.first = 0, .last = UINT64_MAX},
                           .epoch = kEpoch,
                           .first_segment = {},
                           .counters = std::make_shared<TabletCounters>()}) == Status::Ok);
    results_.admit(ClientId(1), 0);
  }
  ~RemovedKeys() override {
    maintenance_.stop();
    maintenance_.wake();
    EXPECT_EQ(scheduler_.runUntil([&] { return maintenance_.stopped(); }, 100'000), runtime::SimScheduler::Stop::Done);
    rcu_.unregisterThread(reader_);
    rcu_.drain();
  }
  void change(wire::Opcode opcode, int number) {
    const std::string key = "key" + std::to_string(number);
    const ByteSpan value = asBytes(std::string_view("value"));
    const bool writes = opcode == wire::Opcode::Write;
    ++sequence_;
    const auto answer = store_.apply({.opcode = opcode,
                                      .identity = {ClientId(1), Sequence(sequence_), Sequence(sequence_ - 1)},
                                      .epoch = kEpoch,
                                      .table = kTable,
                                      .hash = hashKey(kTable, asBytes(key)),
                                      .key = asBytes(key),
                                      .value = std::span(&value, writes ? 1 : 0)},
                                     ObjectStore::Locking::Wait);
    ASSERT_EQ(answer->status, Status::Ok);
    maintenance_.afterMutations();
  }

  log::LogConfig config_ = [] {
    log::LogConfig config;
    config.memory_bytes = 256 << 20;  // all that is removed fits, without cleaning
    return config;
  }();
  runtime::SimScheduler scheduler_{1};
  runtime::SimTraceLog trace_{scheduler_};
  runtime::SimNode node_{scheduler_, trace_, "server", {}};
  runtime::SimExecutor& background_{node_.makeExecutor("background")};
  runtime::ManualClock clock_;
  runtime::SimRcu rcu_;
  runtime::PinRegistry pins_{1};
  std::unique_ptr<log::LogMemory> memory_ = log::LogMemory::open(config_.memory_bytes).value();
  std::unique_ptr<index::HashIndex> index_ = index::HashIndex::open({.reserve_bytes = 64 << 20}, rcu_).value();
  ServerLease lease_;
  TabletTable tablets_{rcu_};
  ResultTable results_;
  ObjectStore store_{*memory_};
  LateReplicator replicator_;
  log::Log log_{config_, {ClusterId(1), ServerId(2)}, *memory_, {store_, replicator_, rcu_, pins_}};
  log::Cleaner cleaner_{log_, store_, replicator_};
  Maintenance maintenance_{background_, {log_, cleaner_, store_, *index_, rcu_}};
  runtime::RcuReader reader_{};
  uint64_t sequence_ = 0;
};

TEST_F(RemovedKeys, AreBoundedWhileBackgroundWorkHasNoTurn) {
  constexpr int kRound = 1000;
  constexpr size_t kMost = Maintenance::kRemovedMax + kRound;
  size_t most = 0;
  for (int round = 0; round < 320; ++round) {
    replicator_.setLate(true);
    for (int i = 0; i < kRound && !HasFatalFailure(); ++i) {
      change(wire::Opcode::Write, i);
      change(wire::Opcode::Remove, i);
      most = std::max(most, store_.tombstones().size());
    }
    replicator_.setLate(false);
    rcu_.quiescent(reader_);
    log_.maintain();
    ASSERT_FALSE(HasFatalFailure()) << round;
  }
  EXPECT_GE(most, Maintenance::kRemovedMax) << "there were so many";
  EXPECT_LE(most, kMost);
  // As soon as the background work has its turn, all removed keys leave.
  EXPECT_EQ(scheduler_.runUntil([&] { return store_.tombstones().size() == 0; }, 1'000'000),
            runtime::SimScheduler::Stop::Done);
}

TEST_F(RemovedKeys, AreLeftForLaterWhereAnotherThreadIsAtTheOldest) {
  replicator_.setLate(true);
  for (int i = 0; store_.tombstones().size() <= Maintenance::kRemovedMax; ++i) {
    change(wire::Opcode::Write, i % 1000);
    change(wire::Opcode::Remove, i % 1000);
    ASSERT_FALSE(HasFatalFailure()) << i;
  }
  replicator_.setLate(false);
  log_.maintain();
  const size_t before = store_.tombstones().size();
  {
    const index::StripeGuard taken(*index_, hashKey(kTable, asBytes(std::string_view("key0"))));
    maintenance_.afterMutations();  // if it waited for the stripe, it would wait for ever
    EXPECT_EQ(store_.tombstones().size(), before);
  }
  maintenance_.afterMutations();
  EXPECT_LT(store_.tombstones().size(), before);
}

}  // namespace
}  // namespace ramcore::store
