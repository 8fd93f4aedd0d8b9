#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "base/change_ref.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/trace.h"
#include "runtime/await.h"
#include "runtime/storage.h"
#include "runtime/task.h"

namespace ramcore::master {

/// Keeps the latest change of the coordinator's state that this server has heard of, in a small file of the server's
/// storage, so that an older copy of that state is found out also after all servers were started again
/// (coordinator/state/change_history.h). A server without storage remembers it for as long as it lives. The file also
/// has the storage's own name, by which servers that found nothing else there are known
/// (coordinator/survey/storage_lineage.h).
///
/// Thread: one executor, where nothing else is said.
class ChangeKeeper {
 public:
  /// Opens the file "heard", or makes it. Blocks. @param storage  nullptr: none; outlives the keeper
  /// Failure, for a person: as Storage::create and open.
  static Outcome<std::unique_ptr<ChangeKeeper>> open(runtime::Storage* storage, runtime::Executor& executor,
                                                     Trace& trace);
  /// idle() is true (checked).
  ~ChangeKeeper();

  ChangeRef latest() const { return latest_; }
  /// To which latest() belongs; none if nothing was heard yet.
  ClusterId cluster() const { return cluster_; }

  /// A start of the coordinator has answered an enlistment or renewal. If that named latest(), the start has that one,
  /// too: from now on its commands are obeyed. What it says is on the disk soon.
  /// False: it is another start than before, and this server has heard of a change since it asked. Whether that start
  /// has it the next question tells; until then the answer counts for nothing.
  /// @param named   latest() as it was when this server asked
  /// @param change  none: the coordinator does not rely on its own state yet
  [[nodiscard]] bool answered(ClusterId cluster, uint64_t start, ChangeRef named, ChangeRef change);
  /// Whether a command, or the answer to a question, comes from the start that has answered last. Another one may be
  /// that of an older copy, or long over; the next renewal tells. Any thread.
  bool obeys(uint64_t start) const { return start == obeyed_start_.load(std::memory_order_acquire); }
  /// The coordinator relies on this change in what it asks or grants. Ends when it is on the disk and may be used, or
  /// when the disk has failed: then this process remembers it for as long as it lives.
  runtime::Task<void> keep(ChangeRef change);

  /// Gives the storage a name if it has none. Ends when it is on the disk, also if it was found there: then no process
  /// will find another one.
  /// @param drawn  at random; 0: none
  /// Returns the storage's name; 0: there is no storage, or the disk has failed, and nobody can tell what it has.
  runtime::Task<uint64_t> nameStorage(uint64_t drawn);

  /// The storage has none that was found or drawn.
  bool lacksName() const { return file_ != nullptr && storage_ == 0; }

  bool idle() const { return !is_writing_; }

 private:
  ChangeKeeper(runtime::Executor& executor, Trace& trace, std::unique_ptr<runtime::StorageFile> file);
  void read();
  bool isKept() const { return kept_ == latest_ && kept_storage_ == storage_; }
  void startWriting();
  runtime::Task<void> write();
  runtime::Task<Status> writeRecord();

  runtime::Executor& executor_;
  Trace& trace_;
  const std::unique_ptr<runtime::StorageFile> file_;  // nullptr: nothing is kept
  ClusterId cluster_;
  ChangeRef latest_;
  uint64_t storage_ = 0;       // its name
  ChangeRef kept_;             // on the disk, by this process
  uint64_t kept_storage_ = 0;  // likewise
  uint64_t generation_ = 0;
  bool was_found_ = false;                 // what is in the file may be in the page cache only
  std::atomic<uint64_t> obeyed_start_{0};  // written by the executor's thread
  bool is_writing_ = false;
  bool has_failed_ = false;
  runtime::Signal written_;
};

}  // namespace ramcore::master
