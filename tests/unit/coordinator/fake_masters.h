#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "coordinator/calls/master_calls.h"
#include "coordinator/state/journal.h"
#include "runtime/await.h"
#include "runtime/random.h"
#include "runtime/sim/sim_node.h"
#include "unit/coordinator/fake_cluster.h"
#include "wire/control.h"

namespace ramcore::coordinator {

/// One coordinator's calls to a FakeCluster.
class FakeMasterCalls final : public MasterCalls {
 public:
  struct Faults {
    uint32_t lose_permille = 0;       ///< of requests, and of answers
    uint32_t duplicate_permille = 0;  ///< a copy arrives up to a second later
  };
  FakeMasterCalls(FakeCluster& cluster, Journal& journal, runtime::SimScheduler& scheduler, runtime::Random random,
                  const Faults& faults)
      : cluster_(cluster), journal_(journal), scheduler_(scheduler), random_(random), faults_(faults) {}

  runtime::Task<TakeResult> takeTablet(ServerId server, Tablet tablet, bool created_empty) override {
    const std::function<Status()> act = [cluster = &cluster_, server, tablet, created_empty] {
      return cluster->take(server, tablet, created_empty);
    };
    TakeResult result;
    result.status = co_await call(server, act);
    result.log = {server, SegmentId(1)};
    co_return result;
  }
  runtime::Task<Status> dropTablet(ServerId server, TabletId tablet, TabletEpoch epoch) override {
    const std::function<Status()> act = [cluster = &cluster_, server, tablet, epoch] {
      return cluster->drop(server, tablet, epoch);
    };
    co_return co_await call(server, act);
  }
  runtime::Task<Status> giveUpIntake(ServerId server, TabletId tablet, TabletEpoch epoch) override {
    const std::function<Status()> act = [cluster = &cluster_, server, tablet, epoch] {
      return cluster->giveUpIntake(server, tablet, epoch);
    };
    co_return co_await call(server, act);
  }
  runtime::Task<Status> splitTablet(ServerId server, TabletId tablet, Tablet lower, Tablet upper) override {
    const std::function<Status()> act = [cluster = &cluster_, server, tablet, lower, upper] {
      return cluster->split(server, tablet, lower, upper);
    };
    co_return co_await call(server, act);
  }
  runtime::Task<TakeResult> takeArriving(ServerId server, Tablet tablet) override {
    const std::function<Status()> act = [cluster = &cluster_, server, tablet] {
      return cluster->takeArriving(server, tablet);
    };
    TakeResult result;
    result.status = co_await call(server, act);
    co_return result;
  }
  runtime::Task<FreezeResult> freezeTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                           TabletEpoch return_epoch) override {
    const std::function<Status()> act = [cluster = &cluster_, server, tablet, epoch, return_epoch] {
      return return_epoch ? cluster->freezeArriving(server, tablet, epoch, return_epoch)
                          : cluster->freeze(server, tablet, epoch, true, {});
    };
    FreezeResult result;
    result.status = co_await call(server, act);
    result.version_ceiling = FakeCluster::kVersionCeiling;
    co_return result;
  }
  runtime::Task<Status> lendTablet(ServerId server, TabletId tablet, TabletEpoch epoch, ServerId owner,
                                   TabletEpoch owner_epoch) override {
    const std::function<Status()> act = [cluster = &cluster_, server, tablet, epoch, owner, owner_epoch] {
      EXPECT_TRUE(owner && owner != server && owner_epoch > epoch) << "clients are sent there";
      return cluster->lend(server, tablet, epoch);
    };
    co_return co_await call(server, act);
  }
  runtime::Task<Status> adoptTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                    Version version_ceiling) override {
    const std::function<Status()> act = [cluster = &cluster_, server, tablet, epoch, version_ceiling] {
      return cluster->adopt(server, tablet, epoch, version_ceiling);
    };
    co_return co_await call(server, act);
  }
  runtime::Task<Status> unfreezeTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                       TabletEpoch new_epoch) override {
    const std::function<Status()> act = [cluster = &cluster_, server, tablet, epoch, new_epoch] {
      return cluster->freeze(server, tablet, epoch, false, new_epoch);
    };
    co_return co_await call(server, act);
  }
  runtime::Task<Status> thawTablet(ServerId server, TabletId tablet, TabletEpoch epoch,
                                   TabletEpoch return_epoch) override {
    const std::function<Status()> act = [cluster = &cluster_, server, tablet, epoch, return_epoch] {
      return cluster->thaw(server, tablet, epoch, return_epoch);
    };
    co_return co_await call(server, act);
  }
  runtime::Task<Status> pullTablet(ServerId server, Tablet tablet, TabletEpoch source_epoch, ServerId source,
                                   bool returns) override {
    const std::function<Status()> act = [cluster = &cluster_, server, tablet, source_epoch, source, returns] {
      return returns ? cluster->pullBack(server, tablet, source) : cluster->pull(server, tablet, source_epoch, source);
    };
    co_return co_await call(server, act);
  }
  runtime::Task<PullResult> pullProgress(ServerId server, TabletId tablet, TabletEpoch epoch,
                                         uint64_t /*rate_max*/) override {
    const std::function<Status()> act = [] { return Status::Ok; };
    const Status reached = co_await call(server, act);
    PullResult result;
    result.status = reached;
    if (reached == Status::Ok) result = cluster_.progress(server, tablet, epoch, SegmentId(9));
    co_return result;
  }
  runtime::Task<Status> recoverTablets(ServerId server, RecoveryOrder order) override {
    const std::function<Status()> act = [cluster = &cluster_, server, order] {
      return cluster->recover(server, order);
    };
    co_return co_await call(server, act);
  }
  runtime::Task<FenceResult> fenceServer(ServerId server, ServerId dead) override {
    const auto replicas = std::make_shared<std::vector<Replica>>();
    const std::function<Status()> act = [cluster = &cluster_, server, dead, replicas] {
      *replicas = cluster->fence(server, dead);
      return Status::Ok;
    };
    FenceResult result;
    result.status = co_await call(server, act);
    if (result.status == Status::Ok) result.replicas = *replicas;
    co_return result;
  }
  runtime::Task<Status> tabletLoads(ServerId server, bool, wire::control::TabletLoadsResponse& loads) override {
    const std::function<Status()> act = [] { return Status::Ok; };
    const Status reached = co_await call(server, act);
    if (reached == Status::Ok) loads.set_id(server.value);
    co_return reached;
  }
  runtime::Task<Status> serverState(ServerId server, bool, wire::control::ServerStateResponse& state) override {
    const std::function<Status()> act = [] { return Status::Ok; };
    const Status reached = co_await call(server, act);
    if (reached != Status::Ok) co_return reached;
    ++cluster_.state_count;
    state.set_id(server.value);
    state.set_replicas_wanted(FakeCluster::kCopies);
    state.set_frames_total(FakeCluster::kPlaces);
    state.set_frames_free(cluster_.machine(server).places_free);
    state.set_storage_bytes(FakeCluster::kPlaces * FakeCluster::kPlaceBytes);
    co_return Status::Ok;
  }

  uint64_t callCount() const { return call_count_; }

 private:
  runtime::Task<Status> call(ServerId server, std::function<Status()> act) {
    ++call_count_;
    const bool awake = co_await journal_.sleepFor(static_cast<int64_t>(random_.between(10'000, 2'000'000)));
    if (!awake || !cluster_.machine(server).up || happens(faults_.lose_permille)) co_return Status::Unreachable;
    if (happens(faults_.duplicate_permille)) {
      const auto later_ns = static_cast<int64_t>(random_.between(1'000'000, 1'000'000'000));
      FakeCluster* cluster = &cluster_;
      scheduler_.call(scheduler_.nowNs() + later_ns, [cluster, server, act] {
        if (cluster->machine(server).up) (void)act();
      });
    }
    const Status status = act();
    const bool heard = co_await journal_.sleepFor(static_cast<int64_t>(random_.between(10'000, 2'000'000)));
    if (!heard || happens(faults_.lose_permille)) co_return Status::DeadlineExceeded;
    co_return status;
  }
  bool happens(uint32_t permille) { return random_.below(1000) < permille; }

  FakeCluster& cluster_;
  Journal& journal_;
  runtime::SimScheduler& scheduler_;
  runtime::Random random_;
  const Faults faults_;
  uint64_t call_count_ = 0;
};

}  // namespace ramcore::coordinator
