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
/// storage, so that an older copy of that state is detected even after all servers were started again
/// (coordinator/state/change_history.h). A server without storage remembers the change for as long as it lives. The
/// file also has the storage's own name, which identifies a server that has found nothing else in its storage
/// (coordinator/survey/storage_lineage.h).
///
/// Thread: one executor, unless a function says otherwise.
class ChangeKeeper {
 public:
  /// Opens the file "heard", or creates it. Blocks. Failure, for a person: as Storage::create and open.
  /// @param storage  nullptr: none; outlives the keeper
  static Outcome<std::unique_ptr<ChangeKeeper>> open(runtime::Storage* storage, runtime::Executor& executor,
                                                     Trace& trace);
  /// idle() is true (checked).
  ~ChangeKeeper();

  ChangeRef latest() const { return latest_; }
  /// The cluster that latest() belongs to; none if nothing was heard yet.
  ClusterId cluster() const { return cluster_; }

  /// Called when a start of the coordinator has answered an enlistment or renewal. If the request named latest(), this
  /// start has that change, too: from now on its commands are obeyed. The change that it names is on the disk soon.
  /// Returns false if it is another start than before and this server has heard of a change since it asked. The next
  /// request will tell whether that start has the change; until then the answer counts for nothing.
  /// @param named   latest() as it was when this server asked
  /// @param change  none: the coordinator does not rely on its own state yet
  [[nodiscard]] bool answered(ClusterId cluster, uint64_t start, ChangeRef named, ChangeRef change);
  /// True if a command, or an answer, comes from the start of the coordinator that has answered last. Another start may
  /// be that of an older copy, or long over; the next renewal tells. Any thread.
  bool obeys(uint64_t start) const { return start == obeyed_start_.load(std::memory_order_acquire); }
  /// Notes a change that the coordinator relies on in what it asks or grants. Completes when the change is on the disk,
  /// so that it may be acted on, or when the disk has failed: then this process remembers the change for as long as it
  /// lives.
  runtime::Task<void> keep(ChangeRef change);

  /// Gives the storage a name if it has none. Completes when the name is on the disk, also if it was found there: then
  /// no process will find another one. Or when the disk has failed: then the next process may find the name, or none.
  /// @param drawn  a random name; 0: none
  /// @return The storage's name; 0: there is no storage, or it has no name.
  runtime::Task<uint64_t> nameStorage(uint64_t drawn);

  /// True if there is a storage, and it has no name, neither found nor drawn.
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
  uint64_t storage_ = 0;       // the storage's name
  ChangeRef kept_;             // the change that this process has written to the disk
  uint64_t kept_storage_ = 0;  // the storage's name that this process has written to the disk
  uint64_t generation_ = 0;
  bool was_found_ = false;                 // a record was in the file; it may be in the page cache only
  std::atomic<uint64_t> obeyed_start_{0};  // written by the executor's thread
  bool is_writing_ = false;
  bool has_failed_ = false;
  runtime::Signal written_;
};

}  // namespace ramcore::master
