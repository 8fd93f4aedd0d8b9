#include "master/cluster/coordinator_link.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/id_text.h"
#include "base/mutation.h"
#include "log/format/segment_format.h"
#include "rpc/control_call.h"

namespace ramcore::master {
namespace {

using wire::Opcode;
namespace control = wire::control;

constexpr int64_t kCallNs = runtime::kNanosPerSecond;
constexpr int64_t kRetryNs = 100 * runtime::kNanosPerMilli;
// A lease is renewed this many times in its length, so that some renewals may get lost.
constexpr int64_t kRenewalsPerLease = 4;
// However short a lease the coordinator names, it is not asked more often than this.
constexpr int64_t kPauseNsMin = runtime::kNanosPerMilli;
// No coordinator grants a longer lease. The bound keeps arithmetic with a number from the wire in range.
constexpr int64_t kLeaseNsMax = 3600 * runtime::kNanosPerSecond;
// Tablets that a renewal names at most, of those that are fetched. The next renewal names others.
constexpr size_t kIntakesMax = 256;

// Why a call has ended with `status`: one line, for a person.
std::string whyNot(Status status, const rpc::Coordinators& coordinators, rpc::Caller& caller) {
  if (status == Status::Unreachable || status == Status::Refused || status == Status::DeadlineExceeded) {
    return coordinators.explain(caller, "server");
  }
  if (status == Status::SessionLost) {
    return "the coordinator at " + coordinators.toString() + " has ended the connection; check that it runs";
  }
  return "the coordinator at " + coordinators.toString() + " answers " + std::string(name(status)) +
         "; its log says more";
}

// @param first  where to begin; set to where the next call begins
void addIntakes(const std::vector<IntakeRef>& intakes, size_t& first, control::RenewServerLeaseRequest& request) {
  const size_t count = std::min(intakes.size(), kIntakesMax);
  for (size_t i = 0; i < count; ++i) {
    const IntakeRef& named = intakes[(first + i) % intakes.size()];
    control::Intake& intake = *request.add_intakes();
    intake.set_tablet(named.tablet.value);
    intake.set_epoch(named.epoch.value);
  }
  first += count;
}

}  // namespace

CoordinatorLink::CoordinatorLink(rpc::Caller& caller, runtime::Executor& executor, const rpc::PeerAddress& coordinator,
                                 store::ServerLease& lease, ChangeKeeper& changes, LinkObserver& observer, Trace& trace)
    : caller_(caller),
      executor_(executor),
      coordinator_(coordinator),
      lease_(lease),
      changes_(changes),
      observer_(observer),
      trace_(trace),
      changed_(executor) {}

CoordinatorLink::~CoordinatorLink() { RC_CHECK(stopped()); }

void CoordinatorLink::start(const ServerDescription& self) {
  RC_CHECK(!running_);
  running_ = true;
  run(self).detach();
}

void CoordinatorLink::stop(bool goodbye) {
  stop_ = true;
  goodbye_ = goodbye;
  changed_.notifyAll();
}

runtime::Task<void> CoordinatorLink::run(ServerDescription self) {
  co_await runtime::resumeOn(executor_, runtime::Priority::Membership);  // start() is called before the dispatch runs
  const bool enlisted = co_await enlist(self);
  if (enlisted) co_await renewUntilStopped();
  if (enlisted && goodbye_) co_await sayGoodbye();
  running_ = false;
}

runtime::Task<Status> CoordinatorLink::ping() {
  control::Empty response;
  const int64_t deadline_ns = executor_.clock().nowNs() + kCallNs;
  const rpc::ControlOutcome outcome =
      co_await rpc::callControl(caller_, executor_, coordinator_, Opcode::Ping, control::Empty(), response,
                                {.deadline_ns = deadline_ns, .priority = runtime::Priority::Membership});
  co_return outcome.status;
}

// The storage's name is on the disk before the request leaves, unless the disk has failed. So the next process on this
// storage tells the same name, whatever this one gets to write.
runtime::Task<Status> CoordinatorLink::askToEnlist(const ServerDescription& self, ChangeRef named,
                                                   control::EnlistResponse& response) {
  const uint64_t storage = co_await changes_.nameStorage(self.drawn_storage);
  if (stop_) co_return Status::RetryLater;  // enlist() does not ask again
  control::EnlistRequest request;
  for (const std::string& locator : self.locators) request.add_locators(locator);
  request.set_name(self.name);
  request.set_memory_bytes(self.memory_bytes);
  request.set_format_version(log::kSegmentFormat);
  request.set_nonce(self.nonce);
  request.set_former_id(self.former.value);
  const ClusterId known = self.former_cluster ? self.former_cluster : changes_.cluster();
  request.set_former_cluster(known.value);
  wire::fillChange(named, *request.mutable_heard());
  request.set_replicas(self.replicas);
  request.set_min_replicas(self.min_replicas);
  request.set_local_replica(self.local_replica);
  request.set_keeps_replicas(self.keeps_replicas);
  request.set_failure_domain(self.failure_domain);
  request.set_storage(storage);
  const int64_t deadline_ns = executor_.clock().nowNs() + kCallNs;
  const rpc::ControlOutcome outcome =
      co_await rpc::callControl(caller_, executor_, coordinator_, Opcode::Enlist, request, response,
                                {.deadline_ns = deadline_ns, .priority = runtime::Priority::Membership});
  co_return outcome.status;
}

bool CoordinatorLink::isRejected(Status status, const ServerDescription& self, const rpc::PeerAddress& asked) {
  if (status == Status::WrongCluster && self.former != ServerId()) {
    observer_.onRejected(status,
                         "the storage of this server belongs to another cluster: check --coordinator, or give an "
                         "empty --storage; what is in this one is needed there");
    return true;
  }
  // Whether the coordinator has refused this server in the handshake. Another one of the list may take it.
  const bool is_shut_out = status == Status::Refused && caller_.connection(asked).openFailure().isLasting();
  if (is_shut_out && coordinator_.haveRefused(caller_)) {
    observer_.onRejected(status, coordinator_.explain(caller_, "server"));
    return true;
  }
  if ((status == Status::Refused && !is_shut_out) || status == Status::WrongFormat || status == Status::WrongCluster) {
    observer_.onRejected(status, "the coordinator refuses this server: check cluster name, secret and version");
    return true;
  }
  if (status == Status::BadRequest) {
    observer_.onRejected(status,
                         "the coordinator cannot make sense of this server's description: check its name and the "
                         "locators it listens at, and that both are of one version");
    return true;
  }
  if (status == Status::Fenced) {
    observer_.onRejected(status, "the coordinator has declared this server dead before it could serve");
    return true;
  }
  return false;
}

runtime::Task<bool> CoordinatorLink::enlist(const ServerDescription& self) {
  std::map<std::string, std::string> told;  // by coordinator: the reason that was traced last
  nonce_ = self.nonce;
  while (!stop_) {
    const rpc::PeerAddress& asked = coordinator_.current();
    Status status = Status::Ok;
    // A storage gets its name only when a coordinator answers. So the image of a machine that has never reached one has
    // a storage without a name, and the storages of machines that begin with this image are not taken for one storage.
    if (changes_.lacksName()) status = co_await ping();
    control::EnlistResponse response;
    const ChangeRef named = changes_.latest();
    const int64_t sent_ns = executor_.clock().nowNs();
    if (status == Status::Ok) status = co_await askToEnlist(self, named, response);
    if (status == Status::Ok && response.id() != 0 && response.lease_ns() > 0) {
      id_ = ServerId(response.id());
      cluster_ = ClusterId(response.cluster());
      lease_ns_ = std::min(response.lease_ns(), kLeaseNsMax);
      // This server had no tablet before, so it has heard of no change since it asked.
      if (changes_.answered(cluster_, response.start(), named, wire::changeOf(response.change()))) {
        lease_.renewed(sent_ns, lease_ns_);
      }
      observer_.onEnlisted(id_, cluster_);
      noteMembership(response.membership());
      co_return true;
    }
    if (isRejected(status, self, asked)) co_return false;
    // RetryLater needs no warning: a coordinator that has just started hears the servers of its state first.
    if (status != Status::RetryLater) {
      std::string why = whyNot(status, coordinator_, caller_);
      std::string& last = told[asked.locators.front().toString()];
      if (why != last) trace_.warning("cannot enlist, trying on: " + why);
      last = std::move(why);
    }
    if (stop_) break;
    [[maybe_unused]] const Status woken = co_await changed_.wait(executor_.clock().nowNs() + kRetryNs);
  }
  co_return false;
}

runtime::Task<void> CoordinatorLink::renewUntilStopped() {
  Status last = Status::Ok;
  Status told = Status::Ok;
  while (!stop_) {
    const int64_t pause_ns = last == Status::Ok ? lease_ns_ / kRenewalsPerLease : std::min(kRetryNs, lease_ns_ / 10);
    [[maybe_unused]] const Status woken =
        co_await changed_.wait(executor_.clock().nowNs() + std::max(pause_ns, kPauseNsMin));
    if (stop_) break;
    control::RenewServerLeaseRequest request;
    request.set_id(id_.value);
    request.set_cluster(cluster_.value);
    const ChangeRef named = changes_.latest();
    wire::fillChange(named, *request.mutable_heard());
    const ServerLoad load = observer_.load();
    request.set_live_bytes(load.live_bytes);
    request.set_room_bytes(load.room_bytes);
    request.set_nonce(nonce_);
    addIntakes(observer_.intakes(), intakes_named_, request);
    control::RenewServerLeaseResponse response;
    // The lease is counted from before the request leaves; the coordinator counts it from later.
    const int64_t sent_ns = executor_.clock().nowNs();
    const rpc::ControlOutcome outcome = co_await rpc::callControl(
        caller_, executor_, coordinator_, Opcode::RenewServerLease, request, response,
        {.deadline_ns = sent_ns + std::min(kCallNs, lease_ns_ / 2), .priority = runtime::Priority::Membership});
    const Status status = outcome.status;
    if (status == Status::Ok && response.lease_ns() > 0) {
      if (!changes_.answered(cluster_, response.start(), named, wire::changeOf(response.change()))) {
        last = Status::RetryLater;  // soon, naming the change that was heard meanwhile
        continue;
      }
      lease_ns_ = std::min(response.lease_ns(), kLeaseNsMax);
      if (!hasKeptTime(response, sent_ns)) {
        last = Status::RetryLater;  // soon: that answer counts if the clock goes on as it should
        continue;
      }
      lease_.renewed(sent_ns, lease_ns_);
      noteMembership(response.membership());
    }
    if (status == Status::Fenced) {
      lease_.end();
      observer_.onRejected(status, "the coordinator has declared this server dead");
      co_return;
    }
    tellOfRenewal(status, told);
    last = status;
  }
}

// True if this machine's clock has kept up with the coordinator's. If not, the former lease may be over for the
// coordinator, and the one that it grants now may have begun for it longer ago than this machine's clock says, which
// may have stood still between question and answer. So neither lease counts.
bool CoordinatorLink::hasKeptTime(const control::RenewServerLeaseResponse& response, int64_t sent_ns) {
  const int64_t lost_ns =
      clock_watch_.lostNs(response.start(), response.clock_ns(), sent_ns, executor_.clock().nowNs());
  if (lost_ns == 0 || RC_MUTATION("serve-after-missing-time")) return true;
  lease_.lapse();
  trace_.warning(
      "the coordinator has seen " + std::to_string(lost_ns / runtime::kNanosPerMilli) +
      " ms pass that are missing here: this machine was frozen together with its clock (a snapshot, or a move to "
      "another host), or its clock is slow; serving nobody until the lease is renewed");
  return false;
}

// Traces how the renewal has ended, if it is not as the last time. The ways in which an absent coordinator shows count
// as one, because they change from one attempt to the next.
void CoordinatorLink::tellOfRenewal(Status status, Status& told) {
  const bool is_away =
      status == Status::SessionLost || status == Status::DeadlineExceeded || status == Status::Unreachable;
  // If one of several coordinators lacks this server's state, it is nothing new that another one is away.
  if (is_away && (told == Status::StateBehind || told == Status::WrongCluster)) return;
  const Status kind = is_away ? Status::Unreachable : status;
  if (std::exchange(told, kind) == kind) return;
  switch (status) {
    case Status::Ok:
      return trace_.info("the coordinator answers again");
    case Status::WrongCluster:
      return trace_.error(
          "the coordinator at " + coordinator_.toString() + " is of another cluster than this server, " +
          textOf(cluster_) +
          ": it was probably started on another --storage. Serving until the lease runs out, and asking on");
    case Status::StateBehind:
      return trace_.error(
          "the coordinator's state is an older copy, and does not have what this server has heard: its log "
          "says what is missing. Serving until the lease runs out, and asking on");
    default:
      return trace_.warning("cannot renew the lease (" + whyNot(status, coordinator_, caller_) +
                            "); serving until it runs out");
  }
}

runtime::Task<void> CoordinatorLink::sayGoodbye() {
  lease_.end();
  control::GoodbyeRequest request;
  request.set_id(id_.value);
  request.set_cluster(cluster_.value);
  control::Empty response;
  const rpc::ControlOutcome outcome = co_await rpc::callControl(
      caller_, executor_, coordinator_, Opcode::Goodbye, request, response,
      {.deadline_ns = executor_.clock().nowNs() + kCallNs, .priority = runtime::Priority::Membership});
  if (outcome.status != Status::Ok) {
    trace_.warning("the coordinator did not hear the goodbye (" + std::string(name(outcome.status)) + ")");
  }
}

void CoordinatorLink::noteMembership(uint64_t version) {
  membership_wanted_ = version;
  if (version == membership_ || asking_members_) return;
  asking_members_ = true;
  askMembers().detach();
}

void CoordinatorLink::refreshMembers() {
  members_are_old_ = true;
  if (!running_ || asking_members_ || id_ == ServerId()) return;
  asking_members_ = true;
  askMembers().detach();
}

runtime::Task<void> CoordinatorLink::askMembers() {
  while (!stop_ && (members_are_old_ || membership_ != membership_wanted_)) {
    members_are_old_ = false;
    control::GetMembershipRequest request;
    request.set_id(id_.value);
    request.set_cluster(cluster_.value);
    control::GetMembershipResponse response;
    const uint64_t asked = membership_wanted_;
    const rpc::ControlOutcome outcome = co_await rpc::callControl(
        caller_, executor_, coordinator_, Opcode::GetMembership, request, response,
        {.deadline_ns = executor_.clock().nowNs() + kCallNs, .priority = runtime::Priority::Membership});
    if (stop_ || outcome.status == Status::Fenced) break;
    if (outcome.status != Status::Ok || !changes_.obeys(response.start())) {
      members_are_old_ = true;
      [[maybe_unused]] const Status woken = co_await changed_.wait(executor_.clock().nowNs() + kRetryNs);
      continue;
    }
    std::vector<Member> members;
    for (const control::Member& from : response.members()) {
      Member member{.id = ServerId(from.id()),
                    .address = {.id = from.id(), .locators = {}},
                    .keeps_replicas = from.keeps_replicas(),
                    .failure_domain = from.failure_domain()};
      for (const std::string& text : from.locators()) {
        auto locator = transport::Locator::parse(text);
        if (locator.ok()) member.address.locators.push_back(std::move(locator).value());
      }
      if (member.id && !member.address.locators.empty()) members.push_back(std::move(member));
    }
    // If a renewal has named another version meanwhile, the members are asked for once more. If this answer is newer
    // than the last renewal, the next renewal names its version.
    membership_ = response.version();
    observer_.onMembers(std::move(members));
    if (membership_wanted_ == asked && !members_are_old_) break;
  }
  asking_members_ = false;
}

runtime::Task<Status> CoordinatorLink::raiseFloor(SegmentId segment, uint64_t replica_epoch) {
  control::RaiseFloorRequest request;
  request.set_id(id_.value);
  request.set_segment(segment.value);
  request.set_replica_epoch(replica_epoch);
  request.set_cluster(cluster_.value);
  control::RaiseFloorResponse response;
  const rpc::ControlOutcome outcome = co_await rpc::callControl(
      caller_, executor_, coordinator_, Opcode::RaiseFloor, request, response,
      {.deadline_ns = executor_.clock().nowNs() + kCallNs, .priority = runtime::Priority::Membership});
  if (outcome.status != Status::Ok) co_return outcome.status;
  if (!changes_.obeys(response.start())) co_return Status::RetryLater;
  // The coordinator's change is stored here first; only then may this server rely on the floor. If a coordinator with
  // an older copy of the state starts later, this server can show it that a change is missing (ChangeKeeper).
  co_await changes_.keep(wire::changeOf(response.change()));
  co_return Status::Ok;
}

runtime::Task<CoordinatorLink::ClientCheck> CoordinatorLink::checkClients(runtime::Executor& executor,
                                                                          std::vector<ClientId> clients) {
  control::CheckClientRequest request;
  for (const ClientId client : clients) request.add_clients(client.value);
  control::CheckClientResponse response;
  ClientCheck check;
  const rpc::ControlOutcome outcome = co_await rpc::callControl(
      caller_, executor, coordinator_, Opcode::CheckClient, request, response,
      {.deadline_ns = executor.clock().nowNs() + kCallNs, .priority = runtime::Priority::Membership});
  check.status = outcome.status;
  if (check.status == Status::Ok && !changes_.obeys(response.start())) check.status = Status::RetryLater;
  if (check.status == Status::Ok && response.valid_size() != static_cast<int>(clients.size())) {
    check.status = Status::BadRequest;
  }
  if (check.status != Status::Ok) co_return check;
  check.valid.assign(response.valid().begin(), response.valid().end());
  check.acknowledged.resize(clients.size());
  const auto told = std::min(response.acknowledged_size(), static_cast<int>(clients.size()));
  for (int i = 0; i < told; ++i) check.acknowledged[static_cast<size_t>(i)] = Sequence(response.acknowledged(i));
  co_return check;
}

}  // namespace ramcore::master
