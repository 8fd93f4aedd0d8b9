#pragma once

#include <functional>
#include <memory>

#include "backup/backup_service.h"
#include "backup/frame_store.h"
#include "backup/rpc_replica_judge.h"
#include "backup/scrubber.h"
#include "base/trace.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"
#include "runtime/storage.h"

namespace ramcore::backup {

struct BackupConfig {
  /// Size of the frame file when it is created; the size of an existing file stays. A larger file keeps more replicas.
  uint64_t storage_bytes = 0;
  uint32_t segment_bytes = 8u << 20;  ///< as of the masters of the cluster
  ScrubOptions scrub = {};
  WriteThread write_thread = WriteThread::Auto;
};

/// The replicas that one server keeps for others: builds, owns, starts and stops the parts in this folder.
///
/// Life: open(), tell formerServer() when enlisting, addTo(), begin() with the new id before anything is served;
/// stop(), keep running until stopped(), destroy. If stopped() was awaited after stop(), the next life knows that
/// nothing was lost, whatever happens to the machine meanwhile. Thread: the dispatch executor.
class Backup {
 public:
  /// What a backup needs from its environment; borrowed, outlives it.
  struct Environment {
    runtime::Storage& storage;
    runtime::Clock& clock;
    Trace& trace;
    rpc::Dispatch& dispatch;
    runtime::Executor& disk;  ///< waits for the disk in writes, and does nothing else; runs until stopped()
    rpc::Caller& caller;
    rpc::PeerAddress coordinator;
    /// Called on the dispatch executor when a server is fenced for the first time: the coordinator has declared it
    /// dead. May be empty.
    std::function<void()> on_fence;
    /// Whether commands of this start of the coordinator are carried out, and its answers believed. Empty: those of any
    /// start are. On any thread.
    std::function<bool(uint64_t start)> obeys = {};
  };
  /// Opens the storage; blocks while it reads what is there. Failure, for a person: as FrameFile::open.
  static Outcome<std::unique_ptr<Backup>> open(const BackupConfig& config, const Environment& environment);

  /// The incarnation of a server that used the storage last; none if the storage is new.
  ServerId formerServer() const { return store_->formerServer(); }
  void addTo(rpc::ServiceTable& table) { service_.addTo(table); }
  /// Makes the storage that of server `id`, durably; from then on the backup serves. WrongCluster: it holds replicas of
  /// another cluster. IoError.
  runtime::Task<Status> begin(ServerId id, ClusterId cluster);
  /// Takes nothing more, and flushes what it has. Has no effect when repeated.
  void stop();
  bool stopped() const {
    return !beginning_ && !closing_ && service_.stopped() && scrubber_.stopped() && store_->idle();
  }

  const FrameStore& store() const { return *store_; }
  FrameStore& store() { return *store_; }
  const BackupService& service() const { return service_; }

 private:
  Backup(std::unique_ptr<FrameStore> store, const BackupConfig& config, const Environment& environment);
  runtime::Task<void> close();

  Trace& trace_;
  const std::unique_ptr<FrameStore> store_;
  RpcReplicaJudge judge_;
  BackupService service_;
  Scrubber scrubber_;
  bool beginning_ = false;
  bool closing_ = false;
  bool stop_ = false;
};

}  // namespace ramcore::backup
