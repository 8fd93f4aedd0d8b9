#pragma once

#include <atomic>
#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "backup/frame_file.h"
#include "backup/frame_writer.h"
#include "runtime/await.h"
#include "runtime/task.h"
#include "wire/replica_messages.h"

namespace ramcore::backup {

/// One write of a replica, as wire::WriteReplica describes it. Borrows the bytes until FrameStore::written() says that
/// the write is over.
struct ReplicaWrite {
  ServerId master;
  SegmentId segment;
  uint64_t replica_epoch = 0;
  uint32_t offset_bytes = 0;
  uint32_t data_bytes = 0;  ///< length of first_data and more_data together
  uint8_t flags = 0;        ///< wire::WriteReplica::Flags
  log::CertificateBytes certificate{};
  ByteSpan first_data;
  std::span<const ByteSpan> more_data;
};

/// Written by the store's executor, read by any thread.
struct StoreStats {
  std::atomic<uint64_t> frames_total{0};
  std::atomic<uint64_t> frames_free{0};
  std::atomic<uint64_t> frames_kept{0};    ///< storage frames for small heads and survivors: no other head gets them
  std::atomic<uint64_t> bytes_written{0};  ///< data of replicas, without certificates
  std::atomic<uint64_t> flushes{0};
  std::atomic<uint64_t> refused_full{0};    ///< replicas for which there was no storage frame
  std::atomic<uint64_t> corrupt_frames{0};  ///< storage frames found corrupt in this life of the process
  std::atomic<uint64_t> checked_bytes{0};   ///< bytes of closed replicas that were read again
  std::atomic<bool> condemned{false};
};

/// The replicas of one server, in the storage frames of one file.
///
/// What survives what: the death of a process loses nothing that was answered, because it is in the page cache. A loss
/// of power loses what no flush covered, sector by sector, in any combination. Why that is harmless:
///
/// - Nothing in a slot is believed by itself. A certificate counts only if the storage frame's bytes, including the
///   segment header that names master and segment, are those that it was cut for. So if a storage frame is used again,
///   whichever mixture of new and old slots and of new and old bytes is on the disk, at most one segment verifies. If
///   it is the former segment, that one was free: nobody asks for it, or the storage frame that replaced it had been
///   flushed before. If it is neither, nothing of the new segment had been answered as flushed, because the flush
///   covers bytes, slot 0 and the zeros in the others alike.
/// - A storage frame only grows: bytes below a certified length are written again only with what they were.
/// - A certificate overwrites neither the newest one that is flushed, nor the newest one that the flush under way
///   covers (which will be the newest flushed one when that flush is over). So there are three slots: for those two,
///   and for what comes meanwhile. With two slots, a certificate that was not flushed could tear the only one that had
///   been promised.
/// - One flush is under way at a time; flushes that are asked for meanwhile share the next one.
///
/// A storage frame is taken over in place only while it has no certificate. Otherwise the replacement gets a storage
/// frame of its own. The older one, which a recovery would still find, is given up when a certificate of the new one is
/// flushed.
///
/// So after a loss of power a replica is at least what was flushed of it: its segment, its epoch, and that it is
/// closed. Two more rules:
///
/// - A replica of a former life that is not closed may be shorter than what had been answered, if the machine has lost
///   power since. A mark beside it notes that durably before this life begins, and mayBeShort() says so. A closed
///   replica is whole, because its certificate covers all there is of it.
/// - What was closed never comes back as open. The earlier, open certificates of a replica are removed, flushed, before
///   the one that closes it is removed, also those in storage frames that were replaced. Otherwise a loss of power
///   after the replica was freed could leave one of them alone.
///
/// A write is carried out at once, or queued for the disk's thread (FrameWriter). The store treats a write as done when
/// it is accepted, because all that comes later for the storage frame, its use by another replica included, is done
/// later. Three things must not be ahead of the file, and wait for what was accepted before: the answers of written(),
/// load(), and flushes. A queued write that failed is undone, and the storage frame takes no more of this replica.
///
/// A flush that failed condemns the file: nothing is written any more, and only replicas that were flushed as they are
/// can still be loaded. A replica that has lost its tail must not be shown as if that were all of it.
///
/// Thread: the given executor; load() visits others for reading. Storage frames that are being read are not used again.
class FrameStore final : private FrameWriter::Owner {
 public:
  /// The share of the storage frames that only small heads may take, and the share that is kept free for survivors and
  /// side logs. So when the storage is full, masters can still record removals and clean, which is what frees storage.
  /// Each share has at least one storage frame. Which ones these are is not fixed: what comes free fills these shares
  /// first.
  static constexpr uint32_t kHeadSharePermille = 125;
  static constexpr uint32_t kSurvivorSharePermille = 125;

  /// Opens the file and reads the slots of all storage frames; blocks for that long. Failure: as FrameFile::open.
  /// @param storage, executor, disk  outlive the store.
  /// @param disk    the executor that may wait for the disk in writes
  /// @param thread  which of the two executors writes
  static Outcome<std::unique_ptr<FrameStore>> open(runtime::Storage& storage, const FrameFileOptions& options,
                                                   runtime::Executor& executor, runtime::Executor& disk,
                                                   WriteThread thread = WriteThread::Auto);
  FrameStore(const FrameStore&) = delete;
  FrameStore& operator=(const FrameStore&) = delete;
  /// idle() is true (checked).
  ~FrameStore();

  /// The server that used the storage last; none if the storage is new.
  ServerId formerServer() const;
  /// None if the storage is new.
  ClusterId cluster() const;
  /// Makes the storage that of this incarnation, durably, before anything is written. WrongCluster: it holds replicas
  /// of another cluster. IoError. Once.
  runtime::Task<Status> begin(ServerId server, ClusterId cluster);
  bool hasBegun() const { return begun_; }
  /// Refuses all writes from now on, flushes everything, and notes that nothing was left that could be lost. Once,
  /// after begin(). IoError: that is not noted, and the next life trusts less of the file.
  runtime::Task<Status> close();

  struct Written {
    Status status = Status::Ok;
    uint32_t length_bytes = 0;
    uint32_t flushed_bytes = 0;
    // The following fields are for written() and flushed().
    uint64_t replica_epoch = 0;
    uint32_t certified_bytes = 0;  // under a certificate of that epoch
    uint32_t frame = 0;
    uint32_t generation = 0;
    uint64_t stamp = 0;
    bool is_queued = false;  // when the write was taken, it was not in the page cache yet
  };
  /// Takes one write: bytes and certificate are in the page cache when isWritten() is true. BadRequest, StaleEpoch (a
  /// newer epoch is here), NotFound (no Open in this life), NoSpace, IoError, RetryLater (too much waits for the disk).
  Written write(const ReplicaWrite& write);
  /// True if nothing is to be waited for, and the write may be answered.
  bool isWritten(const Written& written) const { return written.stamp <= done_stamp_; }
  /// Waits until isWritten(). IoError: it could not be written. NotFound: the replica was freed or replaced meanwhile.
  runtime::Task<Status> written(Written written);
  /// Waits until the write survives a loss of power, or returns what written() returns. Sets written.flushed_bytes to
  /// the bytes that then survive one, with a certificate of the write's epoch. They include what came later than the
  /// write, but before the flush began.
  runtime::Task<Status> flushed(Written& written);
  /// Frees the segment's storage frames, which can then be used again. Ok also if there are none.
  void free(ServerId master, SegmentId segment);
  void freeAll(ServerId master);
  /// Frees only those of the segment's storage frames that are of former lives.
  void freeFormer(ServerId master, SegmentId segment);

  /// Masters that have storage frames here, ascending.
  std::vector<ServerId> masters() const;
  /// Segments of a master with storage frames here, ascending; verified or not.
  std::vector<SegmentId> segments(ServerId master) const;
  /// The segments among these that have storage frames of former lives.
  std::vector<SegmentId> formerSegments(ServerId master) const;

  /// Reads the newest whole replica of the segment into `bytes`, and verifies it. A replica that was written in this
  /// life counts only with its newest certificate, that is, with all of it. If reading fails twice, the storage frame
  /// is not shown any more. NotFound: there is no whole replica.
  /// @param reader  executor that reads and verifies; its thread blocks for that long.
  runtime::Task<Result<log::Certificate>> load(ServerId master, SegmentId segment, runtime::Executor& reader,
                                               std::vector<std::byte>& bytes);
  /// Whether a replica, as load() found it, may have lost its end: when its machine lost power, or by rot.
  bool mayBeShort(const log::Certificate& loaded) const;
  /// Number of storage frames of former lives for whose replicas mayBeShort() is true unless they turn out to be
  /// closed.
  uint32_t doubtfulCount() const { return doubtful_count_; }

  /// A replica that was closed in this life, and all of which is on the disk, as far as is known.
  struct Settled {
    uint32_t frame = 0;
    uint32_t generation = 0;
    uint64_t stamp = 0;
    uint32_t slot = 0;  ///< where its certificate is
    log::Certificate certificate;
  };
  /// The first one in storage frame `from` or in a later one.
  std::optional<Settled> nextSettled(uint32_t from) const;
  /// Reads the replica and its certificate again, from the disk where the system allows it, and verifies them. Corrupt,
  /// IoError: it is not what it was, also when it is read once more. Then it is not shown any more, and its storage
  /// frame is used again only when its master replaces or frees the replica. NotFound: it has gone or changed
  /// meanwhile.
  /// @param reader  executor that reads and verifies, in slices of 1 MiB, at low priority
  /// @param bytes   what is read goes here; outlives the task
  runtime::Task<Status> checkAgain(Settled settled, runtime::Executor& reader, std::vector<std::byte>& bytes);

  bool isCondemned() const { return stats_.condemned.load(std::memory_order_relaxed); }
  /// True if nothing is being written, flushed or read.
  bool idle() const { return !flushing_ && waiting_ == 0 && writer_.isIdle(); }
  const FrameWriter& writer() const { return writer_; }
  const StoreStats& stats() const { return stats_; }
  uint32_t frameBytes() const { return file_->frameBytes(); }

 private:
  static constexpr uint32_t kNoFrame = UINT32_MAX;
  enum class FrameState : uint8_t {
    Free,
    Former,   ///< holds slots of a former life
    Own,      ///< written in this life
    Leaving,  ///< freed while it is read, or while it could come back as what it was
  };
  struct Frame {
    FrameState state = FrameState::Free;
    bool invalid = false;       ///< its bytes were read and are not what its slots say
    bool was_whole = false;     ///< load() has found it whole in this life
    bool of_reserve = false;    ///< counts in reserve_heads_
    bool has_failed = false;    ///< a queued write could not be done; what was there before counts
    uint64_t failed_stamp = 0;  ///< from the write with this stamp on, nothing was done
    bool certified = false;     ///< `certificate` counts
    ServerId master;
    SegmentId segment;
    uint64_t replica_epoch = 0;
    uint64_t short_epoch = 0;    ///< an open replica here under this epoch or an older one may be short
    uint64_t scrub_stamp = 0;    ///< stamp of the removal of the open certificates
    uint8_t open_slots = 0;      ///< bits of the slots with certificates of this segment that do not close it
    uint32_t length_bytes = 0;   ///< bytes that are present
    bool in_next_flush = false;  ///< it is in unflushed_
    uint32_t flushed_bytes = 0;  ///< bytes flushed with a certificate of flushed_epoch
    uint64_t flushed_epoch = 0;
    uint32_t generation = 0;    ///< counts the uses of the storage frame
    uint32_t older = kNoFrame;  ///< another storage frame of the same segment, which this one is to replace
    uint32_t pins = 0;
    uint64_t stamp = 0;                                         ///< stamp of the last write
    std::array<uint64_t, FrameFile::kSlotCount> slot_stamps{};  ///< of the certificate in each slot; 0: nothing to keep
    log::Certificate certificate;                               ///< the newest certificate
  };
  template <typename Tag>
  struct IdHash {
    size_t operator()(Id<Tag, uint64_t> id) const { return id.value * 0x9e3779b97f4a7c15; }
  };
  using SegmentFrames = std::unordered_map<SegmentId, uint32_t, IdHash<struct SegmentIdTag>>;

  /// Suspends a coroutine of the store until a write is done. In a list ordered by stamps: a write wakes the coroutines
  /// that wait for it.
  struct DoneWait : runtime::Job {
    DoneWait(FrameStore& store, uint64_t stamp)
        : Job([](runtime::Job& job) { static_cast<DoneWait&>(job).handle.resume(); }), store(store), stamp(stamp) {}
    bool await_ready() const noexcept { return store.done_stamp_ >= stamp; }
    void await_suspend(std::coroutine_handle<> waiting) {
      handle = waiting;
      store.addWaiting(*this);
    }
    void await_resume() const noexcept {}

    FrameStore& store;
    const uint64_t stamp;
    std::coroutine_handle<> handle;
    DoneWait* later = nullptr;
  };
  struct FlushJob : runtime::Flush {
    explicit FlushJob(FrameStore& store)
        : Flush([](runtime::Job& job) { static_cast<FlushJob&>(job).owner.onFlushed(); }, store.executor_,
                runtime::Priority::Waited),
          owner(store) {}
    FrameStore& owner;
  };

  FrameStore(std::unique_ptr<FrameFile> file, runtime::Executor& executor, runtime::Executor& disk, WriteThread thread);
  Status scan();
  bool takeHeader(Frame& frame, const FrameFile::Header& header);

  uint32_t find(ServerId master, SegmentId segment) const;
  Result<uint32_t> frameFor(const ReplicaWrite& write, const log::Certificate* certificate);
  Status checkBounds(const ReplicaWrite& write, const log::Certificate* certificate, const Frame* present) const;
  uint32_t framesKeptFrom(uint8_t flags) const;
  uint32_t take(uint8_t flags);
  void reset(uint32_t frame, const ReplicaWrite& write);
  Status carryOut(uint32_t frame, const ReplicaWrite& write, const log::Certificate* certificate);
  void planData(const Frame& frame, const ReplicaWrite& write, FrameWrite& plan);
  void planCertificate(Frame& frame, const ReplicaWrite& write, FrameWrite& plan);
  void noteData(Frame& frame, const FrameWrite& plan);
  void noteCertificate(uint32_t frame, const FrameWrite& plan, const log::Certificate& certificate);
  bool clear(const FrameWrite& write);
  void onWritten(const FrameWrite& write, const FrameMark& mark, Status status) override;
  void undo(Frame& frame, const FrameMark& mark);
  void noteDone(uint64_t stamp);
  void addWaiting(DoneWait& wait);
  uint32_t slotToWrite(const Frame& frame) const;
  bool hasFlushedCertificate(const Frame& frame) const;
  bool canBeLoaded(const Frame& frame) const;

  runtime::Task<Status> onDisk(std::function<Status()> work);
  Status writeMarks();
  void scrub(uint32_t frame);
  void scrubClosed();

  void release(uint32_t frame);
  void releaseAll(uint32_t frame);
  void makeFree(uint32_t frame);
  void putFree(uint32_t frame);
  void putScrubbedFree();
  void unlink(ServerId master, SegmentId segment);
  void freeReplaced();
  void unpin(uint32_t frame);
  runtime::Task<Result<log::Certificate>> readWhole(uint32_t frame, runtime::Executor& reader,
                                                    std::vector<std::byte>& bytes);

  runtime::Task<Status> readAgain(Settled settled, runtime::Executor& reader, std::vector<std::byte>& bytes);

  static uint32_t certifiedBytes(const Frame& frame);
  void noteUnflushed(uint32_t frame);
  void noteFlushed();
  runtime::Task<Status> flushedUpTo(uint64_t stamp);
  void startFlush();
  uint64_t stampDone();
  void onFlushed();

  const std::unique_ptr<FrameFile> file_;
  runtime::Executor& executor_;
  runtime::Executor& disk_;
  ClusterId cluster_;
  bool begun_ = false;
  bool closed_ = false;
  uint32_t doubtful_count_ = 0;
  std::vector<Frame> frames_;
  std::unordered_map<ServerId, SegmentFrames, IdHash<struct ServerIdTag>> index_;
  const uint32_t head_frames_;      // storage frames that small heads are certain to get
  const uint32_t survivor_frames_;  // storage frames that others leave to survivors and side logs
  uint32_t reserve_heads_ = 0;      // storage frames that hold small heads, taken in this life
  std::vector<uint32_t> free_;
  std::vector<uint32_t> replacing_;  // storage frames that are to replace an older one
  std::vector<uint32_t> closing_;    // storage frames that are closed, but perhaps not durably
  std::vector<uint32_t> scrubbing_;  // storage frames that are free when their open certificates are durably gone
  struct OpenClear {
    ServerId master;
    SegmentId segment;
    uint64_t stamp;
  };
  std::vector<OpenClear> open_clears_;  // removals of open certificates that are not flushed yet

  // Every write has a stamp; writes up to done_stamp_ are in the page cache. A flush covers the writes whose stamps
  // were drawn before it began. It begins at the disk when these writes are done.
  uint64_t write_stamp_ = 0;
  uint64_t done_stamp_ = 0;
  DoneWait* first_wait_ = nullptr;
  DoneWait* last_wait_ = nullptr;
  uint64_t flushed_stamp_ = 0;
  uint64_t flushing_stamp_ = 0;
  uint64_t wanted_stamp_ = 0;
  bool flushing_ = false;
  bool flush_waits_ = false;  // the flush under way waits for writes that it is to cover
  /// What one storage frame has under a certificate, as of the beginning of a flush.
  struct Covered {
    uint32_t frame = 0;
    uint32_t generation = 0;
    uint64_t replica_epoch = 0;
    uint32_t bytes = 0;
  };
  std::vector<uint32_t> unflushed_;  // storage frames with certificates that are newer than the last flush that began
  std::vector<Covered> covered_;     // what the flush under way covers
  uint32_t waiting_ = 0;             // coroutines of the store that wait
  FlushJob flush_job_;
  runtime::Signal flush_over_;
  FrameWriter writer_;
  std::vector<ByteSpan> pieces_;  // pieces of the write that is being planned
  StoreStats stats_;
};

}  // namespace ramcore::backup
