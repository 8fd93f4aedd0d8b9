#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "coordinator/survey/log_salvage.h"
#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// What is known of the log of one dead server: which servers were asked, what replicas they offer, whether that is all
/// of the log, and what would be lost without the rest.
/// Thread: one executor.
class DeadLog {
 public:
  /// Pause between two questions to a backup that gave no answer.
  static constexpr int64_t kAskAgainNs = runtime::kNanosPerSecond;

  DeadLog(const Parts& parts, ServerId dead) : parts_(parts), dead_(dead) {}

  /// Asks the backups that are heard and were not asked yet, or gave no answer.
  /// @param fence  asks one server, whose answer comes with noteAnswer()
  /// @return false if no server that is heard keeps replicas
  bool ask(const std::function<void(ServerId backup)>& fence);
  void noteAnswer(ServerId backup, FenceResult result);
  /// Forgets the answers: all backups are asked again.
  void forgetAnswers();
  /// Computes survey(), salvage() and lossToken() from the answers of servers that live now.
  void review();

  /// Whether all live servers that keep replicas have answered: nothing else turns up while no server comes.
  bool hasAllAnswers() const;
  /// True if an answer is awaited.
  bool isAsking() const;
  /// Time of the first question since the answers were forgotten; 0: there was none.
  int64_t askedNs() const { return asked_ns_; }
  /// As of the last review().
  const LogSurvey& survey() const { return survey_; }
  /// As of the last review(), while the survey is not complete.
  const LogSalvage& salvage() const { return salvage_; }
  /// Token of the salvage; 0: not all servers that have to answer have.
  uint64_t lossToken() const { return loss_token_; }
  /// True if an operator has agreed to the loss, and it has not become larger since.
  bool mayLose() const;
  /// True if what there is of the log may be fetched.
  bool mayBegin() const { return survey_.isComplete() || mayLose(); }
  /// Servers that keep replicas and did not say which: silent ones, and dead ones whose storage was not used again
  /// since. The server whose log this is does not count if a backup has replicas of it: then it had none of its own.
  std::vector<ServerId> away() const;
  /// For a person.
  std::string whatIsMissing() const;

  /// What recovery masters have to read.
  LogPlan plan() const;
  struct SurvivorPlan {
    LogPlan plan;
    std::vector<ReadSegment> read;  ///< stored before the plan is sent: Server::read
  };
  /// The same for a survivor, which keeps what it has read.
  SurvivorPlan planForSurvivor() const;
  /// From when on a survivor may be told: other recoveries will have to read as far, so the shortest replicas should
  /// be known.
  int64_t readyForSurvivorNs() const;
  /// False: it cannot be stored now.
  runtime::Task<bool> storeRead(std::vector<ReadSegment> read) const;

 private:
  /// The state of the question to one backup.
  struct Asked {
    bool is_under_way = false;
    bool is_answered = false;
    int64_t again_ns = 0;  ///< it is not asked again before
  };

  std::string whatIsDoubtful(const DoubtfulSegment& doubtful) const;

  const Parts parts_;
  const ServerId dead_;
  std::map<ServerId, Asked> asked_;
  std::map<ServerId, std::vector<Replica>> answers_;
  LogSurvey survey_;
  LogSalvage salvage_;       // while the survey is not complete
  uint64_t loss_token_ = 0;  // token of the salvage; 0: not all servers that have to answer have
  int64_t asked_ns_ = 0;     // time of the first question since the answers were cleared
};

}  // namespace ramcore::coordinator
