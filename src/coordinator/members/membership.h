#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/trace.h"
#include "coordinator/members/silence.h"
#include "coordinator/state/async_mutex.h"
#include "coordinator/state/id_allocator.h"
#include "coordinator/state/journal.h"
#include "coordinator/state/records.h"
#include "coordinator/state/stored_state.h"

namespace ramcore::coordinator {

struct MembershipOptions {
  /// For how long a server may serve after a renewal. Longer: a coordinator may be away for longer; a dead server's
  /// tablets stay closed for longer.
  int64_t lease_ns = 2 * runtime::kNanosPerSecond;
  /// Silence after which a server is declared dead; at least lease_ns. Until then it may come back and go on as if
  /// nothing had happened, because nobody has taken its place. Afterwards it never may.
  int64_t verdict_after_ns = 3 * runtime::kNanosPerSecond;
  /// The same where half of the servers or more are silent together; at least verdict_after_ns (silence.h).
  int64_t together_ns = 30 * runtime::kNanosPerSecond;
};

/// Which servers there are, their leases and the verdicts over them.
///
/// A server counts its lease from before it asked and stops early; this side counts from the answer, so this side's
/// count always ends later. A verdict by silence waits for better reasons where it would help nobody (silence.h). It is
/// stored, and from that moment there are no renewals; `leaseIsOver` says when
/// others may take the place of a dead server. What earlier coordinators granted is not known: for one lease after a
/// start, leases are taken for valid and nobody is declared dead.
/// Thread: one executor.
class Membership {
 public:
  Membership(Journal& journal, Trace& trace, const MembershipOptions& options);

  /// Reads the stored servers; stores the length of leases before the first is granted.
  runtime::Task<Status> load();
  /// Watches leases until stop().
  void start();
  /// After Journal::stop().
  void stop();

  struct Enlistment {
    Status status = Status::Ok;
    ServerId id;
  };
  /// Admits a server process under a new id, or gives the id of before if the same process asks again (by its nonce).
  /// @param former  the incarnation whose storage this process has locked: it is proven dead
  /// Failure: BadRequest; WrongFormat: other servers have another format; Fenced: this process was declared dead;
  /// LimitReached; as Journal::commit.
  runtime::Task<Enlistment> enlist(Server server, ServerId former);

  /// What a server says of itself.
  struct Renewal {
    uint64_t nonce = 0;       ///< with which it enlisted
    uint64_t live_bytes = 0;  ///< of its log
    uint64_t room_bytes = 0;  ///< by which that may grow before writes are refused
  };
  /// Renews a lease, which counts from this call. Failure: Fenced: dead or unknown; RetryLater: the verdict is on its
  /// way to the store.
  Status renew(ServerId id, std::optional<Renewal> renewal = {});
  /// The server has stopped and serves nothing any more: dead at once, with its lease over. Unknown ids are fine.
  runtime::Task<Status> goodbye(ServerId id);
  /// Stores that open replicas of the server's log below `floor` do not count; Ok also if it is that high already.
  /// Failure: BadRequest; Fenced: dead or unknown; RetryLater: the verdict is on its way to the store; as
  /// Journal::commit.
  runtime::Task<Status> raiseFloor(ServerId id, ReplicaFloor floor);
  /// Stores that nothing of a dead server's log is needed any more. From then on its record may be forgotten.
  /// Failure: as Journal::commit.
  runtime::Task<Status> storeRecovered(ServerId id);

  /// Stores what may be lost of a dead server's log. Failure: as Journal::commit.
  runtime::Task<Status> storeAcceptedLoss(ServerId id, AcceptedLoss loss);

  /// nullptr if there never was one (or long ago).
  const Server* find(ServerId id) const;
  /// Not declared dead.
  bool isAlive(ServerId id) const;
  /// Whoever has the storage of this server has said what it has heard of the state.
  void noteSpoken(ServerId id);
  bool hasSpoken(ServerId id) const;
  /// Half of those that live have spoken since this coordinator started, or they have had a lease's time for it.
  bool isSettled() const;
  bool hasHadServers() const { return ids_.end() > 1; }
  /// Alive, and heard of within a lease: worth a new tablet.
  bool isHeard(ServerId id) const;
  /// Dead, and unable to answer anyone: its lease has ended.
  bool leaseIsOver(ServerId id) const;
  std::vector<ServerId> heardServers() const;
  /// Whether `id` may learn who the members are. Failure: Fenced: dead or unknown; RetryLater: the verdict is on its
  /// way to the store.
  Status mayAsk(ServerId id) const;
  /// For how long nothing was heard of a server; -1: since before this coordinator started, or it is not known.
  int64_t silentForNs(ServerId id) const;
  struct SilentServer {
    ServerId id;
    SilenceMeans means = SilenceMeans::Nothing;
  };
  /// Living servers that do not renew their leases, and why they are not declared dead.
  std::vector<SilentServer> silentServers() const;
  /// Verdicts since this coordinator started that had no better reason than silence.
  uint64_t verdictsBySilence() const { return verdicts_by_silence_; }
  /// Of servers that there was never one of; false also for those that are long forgotten.
  bool isStillToCome(ServerId id) const { return id == ServerId() || id.value >= ids_.end(); }
  /// Not 0, and another one after every enlistment and verdict, and after a start.
  uint64_t version() const { return version_; }
  /// Told after every enlistment and verdict, when they count already. Once, before start().
  void setListener(std::function<void()> listener) { listener_ = std::move(listener); }
  /// In the order of ids; dead ones included that are not recovered, and of late.
  std::vector<const Server*> servers() const;
  int64_t leaseNs() const { return options_.lease_ns; }

 private:
  // Of those that are recovered. The others are all kept: their floors decide what is recovered.
  static constexpr size_t kDeadKeptMax = 256;
  /// Of those whose storage has not come back, more are kept: they may have what a recovery waits for.
  static constexpr size_t kMissedKeptMax = 4096;

  struct Member {
    Server server;
    std::optional<Renewal> renewal;  // none: not heard since this coordinator started
    int64_t lease_end_ns = 0;        // by this side's count
    int64_t last_heard_ns = 0;       // of this coordinator's time
    bool is_heard = false;           // since this coordinator started
    bool has_spoken = false;         // likewise, or who has its storage has
    bool verdict_under_way = false;
    bool stopped_itself = false;
    int64_t left_behind_since_ns = 0;           // others that were silent with it are back since then; 0: they are not
    SilenceMeans told = SilenceMeans::Nothing;  // in the log
  };
  runtime::Task<void> watch();
  bool hasStoodStill(int64_t since_ns);
  Batch batchOfConfig() const;
  runtime::Task<void> storeShorterLease(int64_t longer_end_ns);
  runtime::Task<void> judgeSilent();
  std::vector<std::pair<ServerId, SilenceMeans>> judgeAll() const;
  void tellOfSilence(ServerId id, SilenceMeans means);
  void tellOfTogether(size_t silent_count, size_t living_count);
  runtime::Task<Status> loadConfig(StoredConfig& config);
  runtime::Task<Status> declareDead(ServerId id, bool stopped_itself);
  runtime::Task<Status> storeNew(Server& server, ServerId former);
  void warnOfCopies(const Server& server, ServerId former);
  void noteChange();
  Status check(const Server& server) const;
  int64_t silenceNs(const Member& member) const;
  int64_t heardWithinNs() const { return options_.lease_ns / 2; }
  bool areSilentTogether() const;
  void watchTogether();
  int64_t nextLookNs() const;

  Journal& journal_;
  Trace& trace_;
  const MembershipOptions options_;
  IdAllocator ids_;
  StoredConfig config_;  // as it is stored
  AsyncMutex lock_;      // of enlisting and verdicts
  runtime::Signal changed_;
  std::map<ServerId, Member> members_;
  int64_t no_verdict_before_ns_ = 0;
  int64_t settled_at_ns_ = runtime::kNever;  // when all have had a lease's time to speak
  bool all_had_time_ = false;
  int64_t hearing_since_ns_ = 0;   // before that, silence says nothing
  int64_t together_until_ns_ = 0;  // half of the servers or more were silent until then
  uint64_t verdicts_by_silence_ = 0;
  bool told_of_together_ = false;
  bool was_together_ = false;  // at the last look
  uint64_t version_ = 0;
  std::function<void()> listener_;
};

}  // namespace ramcore::coordinator
