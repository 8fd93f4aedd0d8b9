/// A frame file with any bytes in its superblocks, certificate slots and frames. Opening, listing and reading it end in
/// order, and what is shown verifies; what was opened can be written to, and what was written is shown by the next
/// life. The inspection of the file, whole or cut off, ends in order too, and what it shows as a replica verifies.
///
/// An input is a list of patches: frame (the last one means the superblocks), place, length, bytes. They fall on a file
/// that holds some replicas. Each input is tried as it is and with repaired checksums of superblocks and slots.

#include <algorithm>
#include <cstdlib>

#include "backup/frame_inspection.h"
#include "backup/frame_store.h"
#include "base/crc32c.h"
#include "fuzz/planted.h"
#include "runtime/sim/sim_node.h"
#include "runtime/sim/sim_storage.h"
#include "tests/unit/backup/segment_maker.h"

namespace {

using namespace ramcore;
using namespace ramcore::backup;
using Flags = wire::WriteReplica;

constexpr ClusterId kCluster{7};
constexpr ServerId kMaster{5};
constexpr uint32_t kFrames = 5;
constexpr uint32_t kSegmentBytes = 4096;
constexpr uint32_t kEventsMax = 100'000;

SegmentMaker makeSegment(uint64_t id) {
  SegmentMaker segment(kCluster, kMaster, SegmentId(id));
  segment.addDigest({}, {SegmentId(id)});
  segment.addObject(TableId(1), "key", "value");
  return segment;
}

/// The first bytes of a file.
class FirstBytes final : public FrameBytes {
 public:
  FirstBytes(runtime::StorageFile& file, uint64_t bytes) : file_(file), bytes_(bytes) {}
  uint64_t bytes() const override { return bytes_; }
  Status read(uint64_t offset_bytes, MutableByteSpan out) override {
    if (offset_bytes + out.size() > bytes_) std::abort();
    return file_.read(offset_bytes, out);
  }

 private:
  runtime::StorageFile& file_;
  const uint64_t bytes_;
};

class FileWorld {
 public:
  FileWorld() {
    check(open() == Status::Ok && begin());
    for (uint64_t id = 1; id <= 3; ++id) check(put(id, 1, id == 2) == Status::Ok);
    close();
  }
  ~FileWorld() { close(); }

  void patch(ByteSpan input, bool repairs) {
    auto storage = disk_.open().value();
    auto file = storage->open("frames").value();
    while (input.size() >= 4) {
      const auto frame = static_cast<uint8_t>(input[0]) % (kFrames + 1);
      const uint64_t begin = frame == kFrames ? 0 : FrameFile::fileBytes(frame, kSegmentBytes);
      const uint64_t place = uint64_t{static_cast<uint8_t>(input[1])} * 32 + static_cast<uint8_t>(input[2]);
      const size_t bytes = std::min<size_t>(static_cast<uint8_t>(input[3]), input.size() - 4);
      const uint64_t at = std::min(begin + place, file->bytes() - bytes);
      check(file->write(at, input.subspan(4, bytes)) == Status::Ok);
      input = input.subspan(4 + bytes);
    }
    if (!repairs) return;
    for (uint64_t slot = 0; slot < 2; ++slot) repair<Superblock>(*file, slot * kBlockBytes);
    for (uint32_t frame = 0; frame < kFrames; ++frame) {
      for (uint32_t slot = 0; slot < FrameFile::kSlotCount; ++slot) {
        repair<log::CertificateBytes>(*file, FrameFile::fileBytes(frame, kSegmentBytes) + slot * kSectorBytes);
      }
      repair<ShortMark>(*file, FrameFile::fileBytes(frame, kSegmentBytes) + FrameFile::kSlotCount * kSectorBytes);
    }
  }

  void inspect(uint64_t bytes_cut_off) {
    auto storage = disk_.open().value();
    auto file = storage->open("frames").value();
    FirstBytes first(*file, file->bytes() - std::min(bytes_cut_off, file->bytes()));
    auto inspection = FrameInspection::open(first);
    if (!inspection.ok()) return check(!inspection.error().message.empty());
    std::vector<std::byte> bytes;
    for (uint32_t frame = 0; frame < inspection->frameCount(); ++frame) {
      const FrameFinding finding = inspection->inspect(frame, bytes);
      check(!finding.replica || log::verifyCertificate(*finding.replica, bytes));
      const uint32_t end = walkEntries(bytes, [](const EntryFinding& entry) {
        check(!entry.entry || entry.entry.key().size() == entry.entry.keyBytes());
      });
      check(end <= bytes.size() && (!finding.replica || end >= finding.replica->length_bytes));
    }
  }

  void run() {
    if (open() != Status::Ok) return;
    show();
    if (begin()) {
      // 90 is nobody's: a replica of it can be made unless there is no space.
      const Status written = put(90, ~uint64_t{0}, true);
      check(written == Status::Ok || written == Status::NoSpace);
      close();
      check(open() == Status::Ok);
      std::vector<std::byte> bytes;
      check(written != Status::Ok || load(kMaster, SegmentId(90), bytes).ok());
      for (const ServerId master : store_->masters()) {
        for (const SegmentId segment : store_->segments(master)) store_->free(master, segment);
      }
      check(scheduler_.runUntil([&] { return store_->idle(); }, kEventsMax) == runtime::SimScheduler::Stop::Done);
      check(store_->stats().frames_free == store_->stats().frames_total);
    }
    close();
  }

 private:
  static void check(bool holds) {
    if (!holds) std::abort();
  }

  template <typename Checked>
  static void repair(runtime::StorageFile& file, uint64_t at) {
    Checked value;
    check(file.read(at, std::as_writable_bytes(std::span(&value, 1))) == Status::Ok);
    if (value.magic == 0) return;
    value.crc = crc32c(bytesOf(value).first(offsetof(Checked, crc)));
    check(file.write(at, bytesOf(value)) == Status::Ok);
  }

  Status open() {
    storage_ = disk_.open().value();
    auto opened = FrameStore::open(
        *storage_, {.storage_bytes = FrameFile::fileBytes(kFrames, kSegmentBytes), .segment_bytes = kSegmentBytes},
        executor_, disk_thread_);
    if (!opened.ok()) {
      check(!opened.error().message.empty() && name(opened.status()) != "Unknown");
      storage_.reset();
      return opened.status();
    }
    store_ = std::move(opened).value();
    return Status::Ok;
  }
  void close() {
    store_.reset();
    storage_.reset();
  }
  template <typename T>
  T finish(runtime::Task<T> task) {
    check(scheduler_.runUntil([&] { return task.isDone(); }, kEventsMax) == runtime::SimScheduler::Stop::Done);
    return task.take();
  }
  bool begin() {
    const Status status = finish(beginOnExecutor());
    check(status == Status::Ok || status == Status::WrongCluster);
    return status == Status::Ok;
  }
  runtime::Task<Status> beginOnExecutor() {
    co_await runtime::resumeOn(executor_);
    co_return co_await store_->begin(ServerId(++last_id_), kCluster);
  }
  Result<log::Certificate> load(ServerId master, SegmentId segment, std::vector<std::byte>& bytes) {
    return finish(store_->load(master, segment, reader_, bytes));
  }

  Status put(uint64_t id, uint64_t epoch, bool closed) {
    const SegmentMaker segment = makeSegment(id);
    ReplicaWrite write;
    write.master = kMaster;
    write.segment = segment.id();
    write.replica_epoch = epoch;
    write.data_bytes = segment.length();
    write.flags = Flags::kOpen | Flags::kCertified;
    write.certificate = log::encodeCertificate(segment.certificate(segment.length(), epoch, closed));
    write.first_data = segment.bytes(0, segment.length());
    return store_->write(write).status;
  }

  void show() {
    std::vector<std::byte> bytes;
    for (const ServerId master : store_->masters()) {
      for (const SegmentId segment : store_->segments(master)) {
        const Result<log::Certificate> loaded = load(master, segment, bytes);
        if (!loaded.ok()) continue;
        check(!loaded->closed || !store_->mayBeShort(*loaded));
        check(loaded->master == master && loaded->segment == segment && loaded->cluster == store_->cluster());
        check(bytes.size() == loaded->length_bytes && log::verifyCertificate(*loaded, bytes));
        fuzz::crashIfPlanted(loaded->replica_epoch > 1);
      }
    }
  }

  runtime::SimScheduler scheduler_{1};
  runtime::SimTraceLog log_{scheduler_};
  runtime::SimNode node_{scheduler_, log_, "machine", {}};
  runtime::SimExecutor& executor_{node_.makeExecutor("dispatch")};
  runtime::SimExecutor& reader_{node_.makeExecutor("worker")};
  runtime::SimExecutor& disk_thread_{node_.makeExecutor("disk")};
  runtime::SimDisk disk_{scheduler_, "disk", {}};
  std::unique_ptr<runtime::Storage> storage_;
  std::unique_ptr<FrameStore> store_;
  uint64_t last_id_ = 100;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const bool repairs : {false, true}) {
    FileWorld world;
    world.patch(std::as_bytes(std::span(data, size)), repairs);
    world.inspect(0);
    world.inspect(size == 0 ? 0 : uint64_t{data[0]} * 97);
    world.run();
  }
  return 0;
}
