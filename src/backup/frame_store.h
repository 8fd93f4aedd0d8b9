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

/// One write of a replica, as wire::WriteReplica describes it. Borrows the bytes, until FrameStore::written() says that
/// the write is over.
struct ReplicaWrite {
  ServerId master;
  SegmentId segment;
  uint64_t replica_epoch = 0;
  uint32_t offset_bytes = 0;
  uint32_t data_bytes = 0;  ///< of first_data and more_data together
  uint8_t flags = 0;        ///< wire::WriteReplica::Flags
  log::CertificateBytes certificate{};
  ByteSpan first_data;
  std::span<const ByteSpan> more_data;
};

/// Written by the store's executor, read by any thread.
struct StoreStats {
  std::atomic<uint64_t> frames_total{0};
  std::atomic<uint64_t> frames_free{0};
  std::atomic<uint64_t> frames_kept{0};    ///< for small heads and survivors: no other head gets them
  std::atomic<uint64_t> bytes_written{0};  ///< data of replicas, without certificates
  std::atomic<uint64_t> flushes{0};
  std::atomic<uint64_t> refused_full{0};    ///< replicas for which there was no frame
  std::atomic<uint64_t> corrupt_frames{0};  ///< found in this life
  std::atomic<uint64_t> checked_bytes{0};   ///< of closed replicas that were read again
  std::atomic<bool> condemned{false};
};

/// The replicas of one server, in the frames of one file.
///
/// What survives what: a process's death loses nothing that was answered, since it is in the page cache. A power loss
/// loses what no flush covered, sector by sector, in any combination. Why that is harmless:
///
/// - Nothing in a slot is believed by itself. A certificate counts if the frame's bytes, including the segment header
///   that names master and segment, are what it was cut for. So of a frame that is used again, whichever mixture of new
///   and old slots, new and old bytes is on the disk, at most one segment verifies. If it is the former one, that was
///   free: nobody asks for it, or the frame that replaced it had been flushed before. If it is neither, nothing of the
///   new one had been answered as flushed, because the flush covers bytes, slot 0 and the zeros in the others alike.
/// - A frame only grows: bytes below a certified length are written again with what they were.
/// - A certificate never overwrites the newest one that is flushed, nor the newest one that the flush under way covers
///   (which will be the newest flushed one when it is over). So there are three slots: those two, and one for what
///   comes meanwhile. With two, a certificate that nobody flushed could tear the only one that somebody was promised.
/// - One flush is under way at a time; what is asked for meanwhile shares the next.
///
/// A frame is taken over in place only while it has no certificate. Otherwise the replacement gets a frame of its own,
/// and the older one, which a recovery would still find, goes when a certificate of the new one is flushed.
///
/// So after a power loss a replica is at least what was flushed of it: segment, epoch, and that it is closed. Two more
/// rules:
///
/// - A replica of a former life that is not closed may be shorter than what had been answered, if the machine lost
///   power since. That is noted with it, durably, before this life begins, and said of it: mayBeShort(). A closed one
///   is whole, because its certificate covers all there is of it.
/// - What was closed never comes back as open. Its earlier, open certificates are removed, flushed, before the one that
///   closes it is, those in frames that were replaced, too: otherwise a power loss after it was freed could leave one
///   of them alone.
///
/// A write is carried out at once, or queued for the disk's thread (FrameWriter). Everything here is as if it were done
/// when it is accepted, because all that comes later for the frame, another replica's use of it included, is done
/// later. What must not be ahead of the file waits: answers for written(), load() and flushes for what was accepted
/// before. A queued write that failed is undone, and the frame takes no more of this replica.
///
/// A flush that failed condemns the file: nothing is written any more, and only replicas that were flushed as they are
/// can still be loaded. One that lost its tail must not be shown as if that were all of it.
///
/// Thread: the executor given; load() visits others for reading. Frames that are being read are not used again.
class FrameStore final : private FrameWriter::Owner {
 public:
  /// Of the frames, the share that only heads of the reserve may take, and the share that is kept free for survivors
  /// and side logs: when storage is full, masters can still record removals and clean, which is what frees it. At least
  /// one each. Which frames they are is not fixed: what comes free fills these shares first.
  static constexpr uint32_t kHeadSharePermille = 125;
  static constexpr uint32_t kSurvivorSharePermille = 125;

  /// Opens the file and reads the slots of all frames; blocks for that long. Failure: as FrameFile::open.
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

  /// The server that used the storage last; none if it is new.
  ServerId formerServer() const;
  /// None if it is new.
  ClusterId cluster() const;
  /// Makes the storage that of this incarnation, durably; before anything is written. WrongCluster: it holds what
  /// belongs to another cluster. IoError. Once.
  runtime::Task<Status> begin(ServerId server, ClusterId cluster);
  bool hasBegun() const { return begun_; }
  /// Refuses all writes from now on, flushes everything, and notes that there was nothing left to lose. Once, after
  /// begin(). IoError: it is not noted, and the next life believes less.
  runtime::Task<Status> close();

  struct Written {
    Status status = Status::Ok;
    uint32_t length_bytes = 0;
    uint32_t flushed_bytes = 0;
    // For written() and flushed().
    uint64_t replica_epoch = 0;
    uint32_t certified_bytes = 0;  // under a certificate of that epoch
    uint32_t frame = 0;
    uint32_t generation = 0;
    uint64_t stamp = 0;
    bool is_queued = false;  // it was not in the page cache when it was taken
  };
  /// Takes one write: bytes and certificate are in the page cache when isWritten() is true. BadRequest, StaleEpoch (a
  /// newer epoch is here), NotFound (no Open in this life), NoSpace, IoError, RetryLater (too much waits for the disk).
  Written write(const ReplicaWrite& write);
  /// True: nothing is to be waited for, and it may be answered.
  bool isWritten(const Written& written) const { return written.stamp <= done_stamp_; }
  /// Waits until it is. IoError: it could not be written. NotFound: the replica was freed or replaced meanwhile.
  runtime::Task<Status> written(Written written);
  /// Waits until what `written` stands for survives a power loss, or gives what written() gives. In
  /// written.flushed_bytes is what then does, with a certificate of the write's epoch; also what came later, but before
  /// the flush began.
  runtime::Task<Status> flushed(Written& written);
  /// The segment's frames can be used again. Ok also if there are none.
  void free(ServerId master, SegmentId segment);
  void freeAll(ServerId master);
  /// Of the segment's frames those of former lives.
  void freeFormer(ServerId master, SegmentId segment);

  /// Masters that have frames here, ascending.
  std::vector<ServerId> masters() const;
  /// Segments of a master with frames here, ascending; verified or not.
  std::vector<SegmentId> segments(ServerId master) const;
  /// Of them those with frames of former lives.
  std::vector<SegmentId> formerSegments(ServerId master) const;

  /// Reads the newest replica of the segment that is whole into `bytes`, and verifies it. Of one that was written in
  /// this life only all of it counts: the newest certificate. What cannot be read twice is shown to nobody any more.
  /// NotFound: there is none.
  /// @param reader  executor that reads and verifies; its thread blocks for that long.
  runtime::Task<Result<log::Certificate>> load(ServerId master, SegmentId segment, runtime::Executor& reader,
                                               std::vector<std::byte>& bytes);
  /// Whether a replica, as load() found it, may have lost its end, with its machine's power or by rot.
  bool mayBeShort(const log::Certificate& loaded) const;
  /// Segments of former lives of which mayBeShort() is true unless they turn out to be closed.
  uint32_t doubtfulCount() const { return doubtful_count_; }

  /// A replica that was closed in this life, and is on the disk with all it has as far as anybody knows.
  struct Settled {
    uint32_t frame = 0;
    uint32_t generation = 0;
    uint64_t stamp = 0;
    uint32_t slot = 0;  ///< where its certificate is
    log::Certificate certificate;
  };
  /// The first one in frame `from` or behind.
  std::optional<Settled> nextSettled(uint32_t from) const;
  /// Reads it and its certificate again, from the disk where the system lets us, and verifies them. Corrupt, IoError:
  /// it is not what it was, also when it is read once more; it is shown to nobody any more, and its frame is used again
  /// only when its master replaces or frees it. NotFound: it has gone or changed meanwhile.
  /// @param reader  executor that reads and verifies, in slices of 1 MiB, at low priority
  /// @param bytes   what is read goes here; outlives the task
  runtime::Task<Status> checkAgain(Settled settled, runtime::Executor& reader, std::vector<std::byte>& bytes);

  bool isCondemned() const { return stats_.condemned.load(std::memory_order_relaxed); }
  /// Nothing is being written, flushed or read.
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
    bool invalid = false;       ///< verified, and not what its slots say
    bool was_whole = false;     ///< load() has found it so in this life
    bool of_reserve = false;    ///< counts in reserve_heads_
    bool has_failed = false;    ///< a write that was queued could not be done; what is there from before counts
    uint64_t failed_stamp = 0;  ///< from which write on nothing was done
    bool certified = false;     ///< `certificate` counts
    ServerId master;
    SegmentId segment;
    uint64_t replica_epoch = 0;
    uint64_t short_epoch = 0;    ///< what is open here under this epoch or an older one may be short
    uint64_t scrub_stamp = 0;    ///< of the removal of the open certificates
    uint8_t open_slots = 0;      ///< bits: with certificates of this segment that do not close it
    uint32_t length_bytes = 0;   ///< present
    bool in_next_flush = false;  ///< stands in unflushed_
    uint32_t flushed_bytes = 0;  ///< with a certificate of flushed_epoch
    uint64_t flushed_epoch = 0;
    uint32_t generation = 0;    ///< counts its uses
    uint32_t older = kNoFrame;  ///< another frame of the same segment, that this one is to replace
    uint32_t pins = 0;
    uint64_t stamp = 0;                                         ///< of the last write
    std::array<uint64_t, FrameFile::kSlotCount> slot_stamps{};  ///< of the certificate in each slot; 0: nothing to keep
    log::Certificate certificate;                               ///< the newest
  };
  template <typename Tag>
  struct IdHash {
    size_t operator()(Id<Tag, uint64_t> id) const { return id.value * 0x9e3779b97f4a7c15; }
  };
  using SegmentFrames = std::unordered_map<SegmentId, uint32_t, IdHash<struct SegmentIdTag>>;

  /// Suspends a coroutine of the store until a write is done. In a list by stamps: a write wakes those who wait for it.
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
  const uint32_t head_frames_;      // that heads of the reserve are certain to get
  const uint32_t survivor_frames_;  // that others leave to survivors and side logs
  uint32_t reserve_heads_ = 0;      // frames that hold heads of the reserve, taken in this life
  std::vector<uint32_t> free_;
  std::vector<uint32_t> replacing_;  // frames with an older one
  std::vector<uint32_t> closing_;    // frames that are closed, but perhaps not durably
  std::vector<uint32_t> scrubbing_;  // frames that are free when their open certificates are durably gone
  struct OpenClear {
    ServerId master;
    SegmentId segment;
    uint64_t stamp;
  };
  std::vector<OpenClear> open_clears_;  // removals of open certificates that are not flushed yet

  // Every write has a stamp; those up to done_stamp_ are in the page cache. A flush covers those that were drawn before
  // it began, and begins at the disk when they are done.
  uint64_t write_stamp_ = 0;
  uint64_t done_stamp_ = 0;
  DoneWait* first_wait_ = nullptr;
  DoneWait* last_wait_ = nullptr;
  uint64_t flushed_stamp_ = 0;
  uint64_t flushing_stamp_ = 0;
  uint64_t wanted_stamp_ = 0;
  bool flushing_ = false;
  bool flush_waits_ = false;  // the flush that is under way, for writes that it is to cover
  /// What one frame has under a certificate, as a flush began.
  struct Covered {
    uint32_t frame = 0;
    uint32_t generation = 0;
    uint64_t replica_epoch = 0;
    uint32_t bytes = 0;
  };
  std::vector<uint32_t> unflushed_;  // frames with certificates that are newer than the last flush that began
  std::vector<Covered> covered_;     // by the flush that is under way
  uint32_t waiting_ = 0;             // coroutines of the store
  FlushJob flush_job_;
  runtime::Signal flush_over_;
  FrameWriter writer_;
  std::vector<ByteSpan> pieces_;  // of the write that is being planned
  StoreStats stats_;
};

}  // namespace ramcore::backup
