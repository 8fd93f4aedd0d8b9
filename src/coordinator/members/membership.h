#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/trace.h"
#include "coordinator/members/silence_watch.h"
#include "coordinator/state/async_mutex.h"
#include "coordinator/state/id_allocator.h"
#include "coordinator/state/journal.h"
#include "coordinator/state/records.h"
#include "coordinator/state/stored_state.h"

namespace ramcore::coordinator {

struct MembershipOptions {
  /// How long a server may serve after a renewal. With a longer lease the coordinator may be away for longer, and a
  /// dead server's tablets stay closed for longer.
  int64_t lease_ns = 2 * runtime::kNanosPerSecond;
  /// Silence after which a server is declared dead; at least lease_ns. Until then it may come back and continue as if
  /// nothing had happened, because no server has taken its place. Afterwards it never may.
  int64_t verdict_after_ns = 3 * runtime::kNanosPerSecond;
  /// Silence after which a server is declared dead if half of the servers or more are silent together; at least
  /// verdict_after_ns (silence.h).
  int64_t together_ns = 30 * runtime::kNanosPerSecond;
};

/// Which servers there are, their leases and the verdicts over them.
///
/// A server counts its lease from before it asked, and stops early. This side counts from the answer, so its count
/// always ends later. A verdict by silence is put off where it would not help (silence.h). A verdict is stored, and
/// from that moment on there are no renewals; `leaseIsOver` says when others may take the place of a dead server. What
/// earlier coordinators granted is not known: for one lease after a start, leases are taken for valid, and no server is
/// declared dead.
/// Thread: one executor.
class Membership {
 public:
  Membership(Journal& journal, Trace& trace, const MembershipOptions& options);

  /// Reads the stored servers, and stores the length of leases before the first is granted.
  runtime::Task<Status> load();
  /// Watches leases until stop().
  void start();
  /// After Journal::stop().
  void stop();

  struct Enlistment {
    Status status = Status::Ok;
    ServerId id;
  };
  /// Admits a server process under a new id, or returns its former id if the same process asks again (by its nonce).
  /// @param former  the incarnation whose storage this process has locked: that one is proven dead
  /// Failure: BadRequest; WrongFormat: other servers have another format; Fenced: this process was declared dead;
  /// LimitReached; as Journal::commit.
  runtime::Task<Enlistment> enlist(Server server, ServerId former);

  using Renewal = ServerRenewal;
  /// Renews a lease, which counts from this call. Failure: Fenced: dead or unknown; RetryLater: the verdict is being
  /// stored.
  Status renew(ServerId id, std::optional<Renewal> renewal = {});
  /// The server has stopped and serves nothing any more: it is dead at once, with its lease over. Ok for unknown ids.
  runtime::Task<Status> goodbye(ServerId id);
  /// Stores that open replicas of the server's log below `floor` do not count; Ok also if its floor is that high
  /// already. Failure: BadRequest; Fenced: dead or unknown; RetryLater: the verdict is being stored; as
  /// Journal::commit.
  runtime::Task<Status> raiseFloor(ServerId id, ReplicaFloor floor);
  /// Stores that nothing of a dead server's log is needed any more. From then on its record may be forgotten.
  /// Failure: as Journal::commit.
  runtime::Task<Status> storeRecovered(ServerId id);

  /// Stores what an operator has agreed to lose of a dead server's log. Failure: as Journal::commit.
  runtime::Task<Status> storeAcceptedLoss(ServerId id, AcceptedLoss loss);
  /// Stores how far a survivor is to read a dead server's log. Failure: as Journal::commit.
  runtime::Task<Status> storeRead(ServerId id, std::vector<ReadSegment> read);

  /// nullptr if there was never such a server, or long ago.
  const Server* find(ServerId id) const;
  /// True if the server is known and not declared dead.
  bool isAlive(ServerId id) const;
  /// Notes that the process that has the storage of this server has said what it has heard of the state.
  void noteSpoken(ServerId id);
  bool hasSpoken(ServerId id) const;
  /// True if half of the servers that live have spoken since this coordinator started, or if all have had a lease's
  /// time for it.
  bool isSettled() const;
  bool hasHadServers() const { return ids_.end() > 1; }
  /// True if the server lives and was heard within a lease: it may be given a new tablet.
  bool hasReported(ServerId id) const;
  /// True if the server is dead and can answer no request any more: its lease has ended.
  bool leaseIsOver(ServerId id) const;
  std::vector<ServerId> heardServers() const;
  /// Whether `id` may learn which servers are members. Failure: Fenced: dead or unknown; RetryLater: the verdict is
  /// being stored.
  Status mayAsk(ServerId id) const;
  /// How long nothing was heard of a server; -1: it was not heard since this coordinator started, or is not known.
  int64_t silentForNs(ServerId id) const { return silences_.silentForNs(id); }
  using SilentServer = SilenceWatch::SilentServer;
  /// Living servers that do not renew their leases, and why they are not declared dead.
  std::vector<SilentServer> silentServers() const { return silences_.silentServers(); }
  /// Verdicts since this coordinator started for no better reason than silence.
  uint64_t verdictsBySilence() const { return verdicts_by_silence_; }
  /// True if there was never a server of this id. False also for servers that are long forgotten.
  bool isStillToCome(ServerId id) const { return id == ServerId() || id.value >= ids_.end(); }
  /// Not 0. Changes with every enlistment and verdict, and with a start.
  uint64_t version() const { return version_; }
  /// `listener` is called after every enlistment and verdict, when they count already. Once, before start().
  void setListener(std::function<void()> listener) { listener_ = std::move(listener); }
  /// In the order of ids. Dead servers are included if they are not recovered, or were recovered lately.
  std::vector<const Server*> servers() const;
  int64_t leaseNs() const { return options_.lease_ns; }

 private:
  runtime::Task<Status> storeOfDead(ServerId id, std::function<void(Server&)> change);

  // How many recovered dead servers have their records kept. Those that are not recovered are all kept: their floors
  // decide what is recovered.
  static constexpr size_t kDeadKeptMax = 256;
  /// More records are kept of recovered servers whose storage has not come back: they may have what a recovery waits
  /// for.
  static constexpr size_t kMissedKeptMax = 4096;

  struct Member {
    Server server;
    int64_t lease_end_ns = 0;  // end of the lease by this side's count
    bool has_spoken = false;   // since this coordinator started; it, or the process that has its storage
    bool verdict_under_way = false;
    bool stopped_itself = false;
  };
  runtime::Task<void> watch();
  bool hasStoodStill(int64_t since_ns);
  Batch batchOfConfig() const;
  runtime::Task<void> storeShorterLease(int64_t longer_end_ns);
  runtime::Task<void> judgeSilent();
  runtime::Task<Status> loadConfig(StoredConfig& config);
  runtime::Task<Status> declareDead(ServerId id, bool stopped_itself);
  runtime::Task<Status> storeNew(Server& server, ServerId former);
  void warnOfCopies(const Server& server, ServerId former);
  void noteChange();
  Status check(const Server& server) const;
  int64_t nextLookNs() const;

  Journal& journal_;
  Trace& trace_;
  const MembershipOptions options_;
  IdAllocator ids_;
  StoredConfig config_;  // as it is stored
  SilenceWatch silences_;
  AsyncMutex lock_;  // held while servers enlist and verdicts are given
  runtime::Signal changed_;
  std::map<ServerId, Member> members_;
  int64_t no_verdict_before_ns_ = 0;
  int64_t settled_at_ns_ = runtime::kNever;  // when all servers have had a lease's time to speak
  bool all_had_time_ = false;
  uint64_t verdicts_by_silence_ = 0;
  uint64_t version_ = 0;
  std::function<void()> listener_;
};

}  // namespace ramcore::coordinator
