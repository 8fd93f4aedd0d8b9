#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "backup/frame_file.h"
#include "coordinator/survey/log_survey.h"
#include "log/format/certificate.h"
#include "sim/checkers/history.h"
#include "sim/cluster/frame_judge.h"
#include "sim/cluster/sim_cluster.h"
#include "sim/cluster/sim_table.h"

namespace ramcore::sim {

/// Proves between any two events that what the machines' disks hold, as it would be if every process died now, is the
/// acknowledged state plus at most calls in flight.
///
/// For the owner of each tablet, alive or dead and not recovered yet, and for several sets of machines (all of them,
/// each one alone, and one drawn from the seed): what a survey (coordinator/survey/log_survey.h) under the stored floor
/// makes of their replicas. If it is complete, its members are replayed in a random order, of each the shortest replica
/// that a recovery might read, and give for every key of the owner's tablets: a version that is not older than any that
/// a client was told of, no key whose removal a client was told of, and no value that nobody wrote. A remove or a write
/// that is not answered, or never will be, may have happened or not. All machines together have to be complete, as soon
/// as all have their power again. So no answer shows what is not durable, and whichever set of machines answers, a
/// recovery brings back everything or waits.
///
/// It reads the disks, not the processes. A frame is read again only when its bytes have changed (SimDisk::lastChange).
/// If several sets of machines give the same replicas, only one of them is replayed.
class DurableCheck {
 public:
  /// All outlive it.
  DurableCheck(const SimCluster& cluster, const SimTables& tables, const History& history, runtime::Random random);

  /// @param alone  names the running server, if any, whose memory has more of its log than any disk: this log need not
  /// be complete on disks
  void setAlone(std::function<std::optional<ServerId>()> alone) { alone_ = std::move(alone); }

  /// Has some moments, drawn from the seed, judged by a second judge as well, which shares no code with the product: as
  /// they are, or as if all machines had lost their power and kept nothing but what was flushed.
  /// @param judge  outlives it; nullptr: nobody
  void setJudge(FrameJudge* judge, uint64_t seed) {
    judge_ = judge;
    seed_ = seed;
  }

  /// Between two events.
  /// @param when  what is happening, for people
  void check(const char* when);

  /// Whether docs/durability.md lets the log of `dead` wait for the storage of the machine `absent`: all other members
  /// are there, and the end only on machines that have lost their power since the process of that server began. So the
  /// absent one may have more. Between two events.
  bool mayWaitFor(ServerId dead, size_t absent);
  /// Whether the disks of the machines but `absent` have the whole log of `server`, as a recovery would find it now.
  /// Between two events.
  bool isWholeWithout(ServerId server, size_t absent);

  /// Moments looked at, logs found complete and judged, and of those the ones from a part of the machines.
  uint64_t momentCount() const { return moments_; }
  uint64_t replayCount() const { return replays_; }
  uint64_t partialCount() const { return partial_; }
  /// Of those, tablets whose contents were in two logs.
  uint64_t lentCount() const { return lent_judged_; }
  const JudgeCounts& judgeCounts() const { return judge_counts_; }
  /// One line for each difference, of the first moment that had one.
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  struct Entry {
    size_t place = 0;  ///< of its key
    uint64_t table = 0;
    KeyHash hash = 0;
    uint64_t version = 0;
    bool is_tombstone = false;
    SegmentId named;  ///< by a tombstone
    ObservedValue value;
  };
  /// The contents of a replica, known by its certificate.
  struct Contents {
    bool has_digest = false;
    SegmentId previous_head;
    std::vector<SegmentId> members;
    std::vector<Entry> entries;
  };
  using CertificateKey = std::tuple<ServerId, SegmentId, uint64_t, uint32_t, uint32_t, bool>;
  /// A frame as it was read last. Numbers are those of SimDisk::lastChange.
  struct Frame {
    uint64_t header_change = ~uint64_t{0};
    backup::FrameFile::Header header;
    struct Verified {
      CertificateKey certificate;
      uint64_t data_change;
    };
    std::vector<Verified> verified;  ///< of the certificates in the header
  };
  struct Found {
    log::Certificate certificate;
    const Contents* contents = nullptr;
    bool maybe_short = false;
  };
  using Log = std::map<SegmentId, Found>;  // on one machine
  using Logs = std::map<ServerId, Log>;    // by master
  struct Newest {
    uint64_t replay = 0;  ///< which one this is of
    uint64_t version = 0;
    bool is_tombstone = false;
    ObservedValue value;
  };
  /// A key that is in the workload or in a log, and what clients were told about it.
  struct Facts {
    HistoryKey key = 0;
    std::string bytes;
    TableId table;  ///< that `hash` is of
    KeyHash hash = 0;
    Newest newest;         ///< of the last replay that met it
    uint64_t shown = 0;    ///< the newest version that somebody was told of
    uint64_t removed = 0;  ///< the newest version whose removal somebody was told of
    std::map<uint64_t, ObservedValue> values;
  };
  struct Owner {
    coordinator::Server server;
    std::vector<coordinator::Tablet> tablets;
    std::vector<size_t> keys;  ///< places of those that are in the tablets
    bool is_all_sync = true;   ///< of the tablets' tables, also those of which only a part of the contents is there
  };

  /// A member of a log, and the replica that is replayed for it.
  struct Member {
    SegmentId segment;
    const Contents* contents = nullptr;
    bool operator==(const Member&) const = default;
  };
  using Members = std::vector<Member>;

  static CertificateKey keyOf(const log::Certificate& certificate);
  void absorb();
  void fold(const Operation& operation);
  std::map<ServerId, Owner> owners();
  void readDisks(const std::map<ServerId, Owner>& owners);
  uint64_t headerAt(uint32_t frame) const;
  void readDisk(size_t machine, const std::map<ServerId, Owner>& owners);
  bool isVerified(size_t machine, uint32_t frame, backup::FrameFile& file, const log::Certificate& certificate);
  void addContents(const log::Certificate& certificate, ByteSpan bytes);
  size_t placeOf(HistoryKey key);
  void judge(Owner& owner);
  void judgeLent(const coordinator::Tablet& tablet, const std::map<ServerId, Owner>& owners);
  void judgeLogs(const coordinator::Tablet& tablet, const std::map<ServerId, Owner>& owners, uint32_t machines,
                 const std::string& who);
  std::map<ServerId, std::vector<coordinator::Replica>> answers(ServerId owner, uint32_t machines) const;
  coordinator::LogSurvey survey(const Owner& owner, uint32_t machines) const;
  void judgeLog(const Owner& owner, const coordinator::LogSurvey& survey, const std::string& who);
  Members membersOf(const Owner& owner, const coordinator::LogSurvey& survey) const;
  void beginReplay();
  void replay(ServerId server, const std::vector<coordinator::Tablet>& tablets, Members members);
  void judgeKey(const Facts& facts, const std::string& who);
  bool isIn(const std::vector<coordinator::Tablet>& tablets, Facts& facts) const;
  std::vector<size_t> keysOf(const std::vector<coordinator::Tablet>& tablets);
  bool hasOpen(HistoryKey key, bool removes) const;
  bool mayHaveWritten(HistoryKey key, const ObservedValue& value) const;
  bool wasAnythingTold(const std::vector<size_t>& keys) const;
  void askJudge(const std::map<ServerId, Owner>& owners);
  void addDisks(JudgedMoment& moment) const;
  void addKeys(JudgedMoment& moment);
  void fail(const std::string& what);

  const SimCluster& cluster_;
  const SimTables& tables_;
  const History& history_;
  runtime::Random random_;
  std::function<std::optional<ServerId>()> alone_;
  size_t absorbed_ = 0;            ///< operations looked at
  std::vector<size_t> unsettled_;  ///< of them, those without an answer
  std::vector<Facts> facts_;       ///< by place
  std::map<HistoryKey, size_t> places_;
  std::vector<size_t> met_;        ///< places of the keys that the last replay met
  std::vector<Members> replayed_;  ///< of the owner that is being judged
  std::map<CertificateKey, Contents> contents_;
  std::vector<std::vector<Frame>> frames_;  ///< by machine
  std::vector<log::Certificate> slots_;     ///< of the frame that is being read
  std::vector<std::byte> bytes_;            ///< the same
  std::vector<Logs> disks_;                 ///< as just read, by machine
  std::vector<TableId> table_ids_;          ///< of tables_, if they are stored
  bool was_deceived_ = false;               ///< a disk has lost what it had said was flushed
  bool is_somebody_powerless_ = false;      ///< whose disk was not read
  std::optional<ServerId> alone_now_;
  std::vector<coordinator::Tablet> lent_;  ///< tablets whose contents are in two logs
  FrameJudge* judge_ = nullptr;
  uint64_t seed_ = 0;             ///< of the run, for the judge
  runtime::Random judge_random_;  ///< what it is asked
  JudgeCounts judge_counts_ = {};
  const char* when_ = "";
  uint64_t moments_ = 0;
  uint64_t replay_ = 0;   ///< number of the last one
  uint64_t replays_ = 0;  ///< logs judged
  uint64_t partial_ = 0;
  uint64_t lent_judged_ = 0;
  std::vector<std::string> failures_;
};

}  // namespace ramcore::sim
