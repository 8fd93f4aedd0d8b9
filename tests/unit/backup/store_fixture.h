#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>

#include "backup/frame_store.h"
#include "runtime/sim/sim_node.h"
#include "runtime/sim/sim_storage.h"
#include "tests/unit/backup/segment_maker.h"

namespace ramcore::backup {

inline constexpr ClusterId kCluster{7};
inline constexpr ServerId kMaster{5};
inline constexpr uint32_t kSegmentBytes = 16 << 10;

/// One machine with a disk, and the store that the process on it has open.
struct StoreWorld {
  using Flags = wire::WriteReplica;

  explicit StoreWorld(uint64_t seed = 1, uint32_t frame_count = 16, uint32_t segment_bytes = kSegmentBytes)
      : scheduler(seed),
        log(scheduler),
        node(scheduler, log, "machine", {}),
        executor(node.makeExecutor("dispatch")),
        reader(node.makeExecutor("worker")),
        disk_thread(node.makeExecutor("disk")),
        disk(scheduler, "disk", {}),
        options{.storage_bytes = FrameFile::fileBytes(frame_count, segment_bytes), .segment_bytes = segment_bytes} {}
  ~StoreWorld() { close(); }

  /// Opens the store without using it.
  Status open() {
    storage = disk.open().value();
    if (wrap_storage) storage = wrap_storage(std::move(storage));
    auto opened = FrameStore::open(*storage, options, executor, disk_thread, write_thread);
    if (opened.ok()) {
      store = std::move(opened).value();
    } else {
      failure = opened.error().message;
      storage.reset();
    }
    return opened.status();
  }
  /// Opens it for the next incarnation.
  void start() {
    ASSERT_EQ(open(), Status::Ok) << failure;
    ASSERT_EQ(begin(ServerId(++last_id), kCluster), Status::Ok);
  }
  /// The process ends. What it had under way ends with an error.
  void close() {
    disk.killProcess();
    if (store) {
      runUntil([this] { return pending == 0 && store->idle(); });
    }
    store.reset();
    storage.reset();
  }
  void restart() {
    close();
    start();
  }
  void losePower() {
    disk.losePower();
    restart();
  }

  void runUntil(const std::function<bool()>& done) {
    ASSERT_EQ(scheduler.runUntil(done, 10'000'000), runtime::SimScheduler::Stop::Done);
  }
  /// Begins a coroutine of the store on its executor.
  runtime::Task<Status> onExecutor(std::function<runtime::Task<Status>()> make) {
    ++pending;
    co_await runtime::resumeOn(executor);
    const Status status = co_await make();
    --pending;
    co_return status;
  }
  Status begin(ServerId server, ClusterId cluster) {
    return run(onExecutor([&] { return store->begin(server, cluster); }));
  }
  Status closeCleanly() {
    return run(onExecutor([&] { return store->close(); }));
  }
  template <typename T>
  T run(runtime::Task<T> task) {
    runUntil([&] { return task.isDone(); });
    return task.take();
  }

  /// A write of the bytes [from, to) of a segment.
  static ReplicaWrite makeWrite(ServerId master, const SegmentMaker& segment, uint64_t epoch, uint32_t from,
                                uint32_t to, uint8_t flags = 0, std::optional<log::Certificate> certificate = {}) {
    ReplicaWrite write;
    write.master = master;
    write.segment = segment.id();
    write.replica_epoch = epoch;
    write.offset_bytes = from;
    write.data_bytes = to - from;
    write.flags = flags;
    if (certificate) {
      write.flags |= Flags::kCertified;
      write.certificate = log::encodeCertificate(*certificate);
    }
    write.first_data = segment.bytes(from, to);
    return write;
  }
  /// Opens a replica with everything there is, certified.
  FrameStore::Written put(ServerId master, const SegmentMaker& segment, uint64_t epoch, bool closed,
                          uint8_t flags = Flags::kOpen) {
    return store->write(makeWrite(master, segment, epoch, 0, segment.length(), flags,
                                  segment.certificate(segment.length(), epoch, closed)));
  }
  Status flush(FrameStore::Written& written) {
    return run(onExecutor([&] { return store->flushed(written); }));
  }

  struct Loaded {
    Status status = Status::Ok;
    log::Certificate certificate;
    std::vector<std::byte> bytes;
  };
  Loaded load(ServerId master, SegmentId segment) {
    Loaded loaded;
    const Result<log::Certificate> result = run(store->load(master, segment, reader, loaded.bytes));
    loaded.status = result.status();
    if (result.ok()) loaded.certificate = *result;
    return loaded;
  }

  runtime::SimScheduler scheduler;
  runtime::SimTraceLog log;
  runtime::SimNode node;
  runtime::SimExecutor& executor;
  runtime::SimExecutor& reader;
  runtime::SimExecutor& disk_thread;
  WriteThread write_thread = WriteThread::Auto;
  std::function<std::unique_ptr<runtime::Storage>(std::unique_ptr<runtime::Storage>)> wrap_storage;
  runtime::SimDisk disk;
  FrameFileOptions options;
  std::unique_ptr<runtime::Storage> storage;
  std::unique_ptr<FrameStore> store;
  std::string failure;
  uint64_t last_id = 100;
  uint32_t pending = 0;
};

}  // namespace ramcore::backup
