#include "runtime/sim/sim_storage.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace ramcore::runtime {
namespace {

constexpr uint64_t kChangeBlockBytes = 4096;

Failure processIsDead() { return Failure{Status::IoError, "the process that opened the storage is dead"}; }

Failure badName(std::string_view name) {
  return Failure{Status::BadConfig, "'" + std::string(name) + "' cannot name a file of the storage"};
}

}  // namespace

/// A flush that is under way. It covers what was written before it began, and nothing that was written later, not even
/// into the same sectors.
struct SimDisk::FlushEvent : Timer {
  using SectorBytes = std::array<std::byte, kSectorBytes>;

  FlushEvent(SimDisk& disk, File& file, Flush& flush);
  /// Keeps the present bytes of a sector that is about to be written.
  void keep(uint64_t sector);
  void finish();
  void copyToDisk();
  static void copyOut(const ZeroedBytes& from, uint64_t sector, SectorBytes& to);
  void end(Status status);

  SimDisk& disk;
  File& file;
  Flush& flush;
  const Sectors sectors;
  std::map<uint64_t, SectorBytes> kept;  // sectors of `sectors` that were written since: their bytes before that
  std::list<FlushEvent>::iterator self;
};

class SimDisk::File final : public StorageFile {
 public:
  File(SimDisk& disk, std::shared_ptr<bool> alive, std::shared_ptr<Content> content)
      : disk_(disk), alive_(std::move(alive)), content_(std::move(content)) {}
  ~File() override { RC_CHECK_MSG(flush_count == 0, "a file was closed during its flush"); }

  uint64_t bytes() const override { return content_->cached.size(); }
  bool isCondemned() const override { return condemned; }

  Status write(uint64_t offset_bytes, std::span<const ByteSpan> pieces) override {
    if (!*alive_ || condemned) return Status::IoError;
    uint64_t total = 0;
    for (const ByteSpan& piece : pieces) total += piece.size();
    if (offset_bytes > bytes() || total > bytes() - offset_bytes) return Status::BadRequest;
    for (const ByteSpan& piece : pieces) {
      if (piece.empty()) continue;
      const uint64_t last = (offset_bytes + piece.size() - 1) / kSectorBytes;
      for (uint64_t sector = offset_bytes / kSectorBytes; sector <= last; ++sector) {
        disk_.keepForFlushes(*this, sector);
        content_->dirty.add(sector);
      }
      std::copy(piece.begin(), piece.end(), content_->cached.begin() + static_cast<std::ptrdiff_t>(offset_bytes));
      content_->noteChange(++disk_.change_count_, offset_bytes, piece.size());
      offset_bytes += piece.size();
    }
    disk_.spendOnWrite();
    return Status::Ok;
  }

  Status read(uint64_t offset_bytes, MutableByteSpan out) override {
    if (!*alive_) return Status::IoError;
    if (offset_bytes > bytes() || out.size() > bytes() - offset_bytes) return Status::BadRequest;
    std::copy_n(content_->cached.begin() + static_cast<std::ptrdiff_t>(offset_bytes), out.size(), out.begin());
    return Status::Ok;
  }

  void flush(Flush& flush) override {
    ++flush_count;
    FlushEvent& event = disk_.flushing_.emplace_back(disk_, *this, flush);
    event.self = std::prev(disk_.flushing_.end());
    if (!*alive_ || condemned) {
      event.end(Status::IoError);
      return;
    }
    const SimDiskOptions& options = disk_.options_;
    const auto spread = static_cast<uint64_t>(options.flush_ns_max - options.flush_ns_min);
    disk_.scheduler_.after(event, options.flush_ns_min + static_cast<int64_t>(disk_.random_.below(spread + 1)));
  }

  Content& content() { return *content_; }
  uint32_t flush_count = 0;
  bool condemned = false;

 private:
  SimDisk& disk_;
  std::shared_ptr<bool> alive_;
  std::shared_ptr<Content> content_;
};

class SimDisk::Mount final : public Storage {
 public:
  Mount(SimDisk& disk, std::shared_ptr<bool> alive) : disk_(disk), alive_(std::move(alive)) {}
  ~Mount() override {
    if (disk_.alive_ != alive_) return;
    disk_.alive_ = nullptr;
    disk_.writer_ = nullptr;
  }

  Outcome<std::unique_ptr<StorageFile>> create(std::string_view name, uint64_t bytes) override {
    if (!*alive_) return processIsDead();
    if (!isValidName(name)) return badName(name);
    if (disk_.files_.contains(name)) return Failure{Status::InUse, "the file " + std::string(name) + " exists"};
    if (bytes > disk_.options_.capacity_bytes || disk_.usedBytes() > disk_.options_.capacity_bytes - bytes) {
      return Failure{Status::NoSpace, "no space for " + std::to_string(bytes) + " bytes"};
    }
    auto content = std::make_shared<Content>();
    content->cached.resize(bytes);
    content->flushed.resize(bytes);
    const uint64_t sectors = (bytes + kSectorBytes - 1) / kSectorBytes;
    content->dirty.resize(sectors);
    content->dropped.resize(sectors);
    content->changes.resize(bytes / kChangeBlockBytes + 1);
    disk_.files_.emplace(name, content);
    return std::unique_ptr<StorageFile>(std::make_unique<File>(disk_, alive_, std::move(content)));
  }

  Outcome<std::unique_ptr<StorageFile>> open(std::string_view name) override {
    if (!*alive_) return processIsDead();
    if (!isValidName(name)) return badName(name);
    const auto found = disk_.files_.find(name);
    if (found == disk_.files_.end()) return Failure{Status::NotFound, "there is no file " + std::string(name)};
    return std::unique_ptr<StorageFile>(std::make_unique<File>(disk_, alive_, found->second));
  }

  Outcome<std::vector<std::string>> list() override {
    if (!*alive_) return processIsDead();
    std::vector<std::string> names;
    for (const auto& [name, content] : disk_.files_) names.push_back(name);
    return names;
  }

  Status remove(std::string_view name) override {
    if (!*alive_) return Status::IoError;
    if (!isValidName(name)) return Status::BadConfig;
    const auto found = disk_.files_.find(name);
    if (found == disk_.files_.end()) return Status::NotFound;
    disk_.files_.erase(found);
    return Status::Ok;
  }

  Outcome<StorageCapacity> capacity() override {
    if (!*alive_) return processIsDead();
    const uint64_t total = disk_.options_.capacity_bytes;
    return StorageCapacity{.total_bytes = total, .free_bytes = total - std::min(total, disk_.usedBytes())};
  }

  PowerEpoch powerEpoch() const override { return disk_.power_epoch_; }

 private:
  SimDisk& disk_;
  std::shared_ptr<bool> alive_;
};

// ---- Flushing

void SimDisk::FlushEvent::copyOut(const ZeroedBytes& from, uint64_t sector, SectorBytes& to) {
  const uint64_t first = sector * kSectorBytes;
  std::memcpy(to.data(), from.begin() + first, std::min(kSectorBytes, from.size() - first));
}

SimDisk::FlushEvent::FlushEvent(SimDisk& disk, File& file, Flush& flush)
    : Timer([](Timer& timer) { static_cast<FlushEvent&>(timer).finish(); }),
      disk(disk),
      file(file),
      flush(flush),
      sectors(file.content().dirty) {}

void SimDisk::FlushEvent::keep(uint64_t sector) {
  if (!sectors.has(sector)) return;
  const auto [at, is_new] = kept.try_emplace(sector);
  if (is_new) copyOut(file.content().cached, sector, at->second);
}

void SimDisk::keepForFlushes(const File& file, uint64_t sector) {
  for (FlushEvent& event : flushing_) {
    if (&event.file == &file) event.keep(sector);
  }
}

void SimDisk::failFlushes(uint32_t count, std::function<bool()> may_fail) {
  flushes_to_fail_ = count;
  may_fail_ = std::move(may_fail);
}

bool SimDisk::failsNow() {
  if (flushes_to_fail_ == 0 || (may_fail_ && !may_fail_())) return false;
  --flushes_to_fail_;
  return true;
}

void SimDisk::FlushEvent::finish() {
  ++disk.counts_.flushes;
  Content& content = file.content();
  if (disk.failsNow() || file.condemned) {
    ++disk.counts_.failed_flushes;
    // The system takes these sectors for clean: they never get to the disk, and a later flush does not notice that.
    content.dirty.remove(sectors.all());
    for (const uint64_t sector : sectors.all()) content.dropped.add(sector);
    file.condemned = true;
    end(Status::IoError);
    return;
  }
  if (disk.lying_) {
    disk.counts_.lies += sectors.all().empty() ? 0 : 1;
    content.is_owed = content.is_owed || !sectors.all().empty();
  } else {
    copyToDisk();
    content.is_owed = false;
  }
  end(Status::Ok);
}

void SimDisk::FlushEvent::copyToDisk() {
  Content& content = file.content();
  for (const uint64_t sector : sectors.all()) Content::copySector(sector, content.cached, content.flushed);
  content.dirty.remove(sectors.all());
  for (const auto& [sector, bytes] : kept) {
    const uint64_t first = sector * kSectorBytes;
    std::memcpy(content.flushed.begin() + first, bytes.data(), std::min(kSectorBytes, content.flushed.size() - first));
    content.dirty.add(sector);
  }
  // A flush that began earlier and ends later must not bring back older bytes.
  for (FlushEvent& earlier : disk.flushing_) {
    if (&earlier == this) break;
    if (&earlier.file != &file) continue;
    for (auto& [sector, bytes] : earlier.kept) {
      if (sectors.has(sector)) copyOut(content.flushed, sector, bytes);
    }
  }
}

void SimDisk::FlushEvent::end(Status status) {
  --file.flush_count;
  flush.status = status;
  flush.executor.post(flush, flush.priority);
  disk.flushing_.erase(self);
}

// ---- SimDisk

SimDisk::SimDisk(SimScheduler& scheduler, std::string_view name, const SimDiskOptions& options)
    : scheduler_(scheduler),
      options_(options),
      random_(scheduler.stream("disk." + std::string(name))),
      write_random_(scheduler.stream("disk." + std::string(name) + ".writes")) {
  RC_CHECK(options.flush_ns_min >= 0 && options.flush_ns_max >= options.flush_ns_min);
  RC_CHECK(options.kept_permille + options.torn_permille <= 1'000);
}

SimDisk::~SimDisk() { RC_CHECK_MSG(alive_ == nullptr || !*alive_, "a simulated disk was destroyed while it is open"); }

Outcome<std::unique_ptr<Storage>> SimDisk::open() {
  if (alive_ != nullptr) return Failure{Status::InUse, "the disk belongs to a running process: stop that first"};
  alive_ = std::make_shared<bool>(true);
  return std::unique_ptr<Storage>(std::make_unique<Mount>(*this, alive_));
}

void SimDisk::setFlushTime(int64_t ns_min, int64_t ns_max) {
  RC_CHECK(ns_min >= 0 && ns_max >= ns_min);
  options_.flush_ns_min = ns_min;
  options_.flush_ns_max = ns_max;
}

void SimDisk::setStalls(uint32_t permille, int64_t ns_max) {
  RC_CHECK(permille <= 1'000 && ns_max >= 0);
  options_.stall_permille = permille;
  options_.stall_ns_max = ns_max;
}

void SimDisk::spendOnWrite() {
  if (writer_ == nullptr || !writer_->isCurrent()) return;
  const bool stalls = write_random_.below(1'000) < options_.stall_permille;
  counts_.stalls += stalls ? 1 : 0;
  const int64_t ns_max = stalls ? options_.stall_ns_max : options_.write_ns_max;
  writer_->spend(static_cast<int64_t>(write_random_.below(static_cast<uint64_t>(ns_max) + 1)));
}

void SimDisk::killProcess() {
  writer_ = nullptr;
  if (alive_ == nullptr) return;
  *alive_ = false;
  alive_ = nullptr;
  while (!flushing_.empty()) flushing_.front().end(Status::IoError);
}

void SimDisk::losePower() {
  killProcess();
  ++counts_.power_losses;
  if (owesFlushes()) ++counts_.power_losses_after_lies;
  if (power_epoch_) ++power_epoch_.value;
  for (auto& [name, content] : files_) loseUnflushed(*content);
}

void SimDisk::Content::noteChange(uint64_t number, uint64_t offset_bytes, uint64_t bytes) {
  const uint64_t last = (offset_bytes + bytes - 1) / kChangeBlockBytes;
  for (uint64_t block = offset_bytes / kChangeBlockBytes; block <= last; ++block) changes[block] = number;
}

void SimDisk::Content::copySector(uint64_t sector, const ZeroedBytes& from, ZeroedBytes& to) {
  const uint64_t first = sector * kSectorBytes;
  std::memcpy(to.begin() + first, from.begin() + first, std::min(kSectorBytes, from.size() - first));
}

void SimDisk::Sectors::remove(const std::vector<uint64_t>& sectors) {
  for (const uint64_t sector : sectors) has_[sector] = false;
  std::erase_if(all_, [&](uint64_t sector) { return !has_[sector]; });
}

void SimDisk::loseUnflushed(Content& content) {
  std::vector<uint64_t> dirty = content.dirty.all();
  std::sort(dirty.begin(), dirty.end());
  for (const uint64_t sector : dirty) {
    const uint64_t first = sector * kSectorBytes;
    uint64_t kept = std::min(kSectorBytes, content.cached.size() - first);
    const uint64_t fate = random_.below(1'000);
    if (fate >= options_.kept_permille + options_.torn_permille) {
      ++counts_.lost_sectors;
      continue;
    }
    if (fate >= options_.kept_permille) {
      ++counts_.torn_sectors;
      kept = random_.below(kept);
    }
    std::copy_n(content.cached.begin() + static_cast<std::ptrdiff_t>(first), kept,
                content.flushed.begin() + static_cast<std::ptrdiff_t>(first));
  }
  // In all other sectors the cached bytes and those on the disk are the same.
  for (const Sectors* sectors : {&content.dirty, &content.dropped}) {
    for (const uint64_t sector : sectors->all()) {
      Content::copySector(sector, content.flushed, content.cached);
      content.noteChange(++change_count_, sector * kSectorBytes, 1);
    }
  }
  content.dirty.clear();
  content.dropped.clear();
  content.is_owed = false;
}

bool SimDisk::owesFlushes() const {
  return std::any_of(files_.begin(), files_.end(), [](const auto& file) { return file.second->is_owed; });
}

bool SimDisk::isFlushed(std::string_view name, uint64_t first, uint64_t bytes) const {
  const auto found = files_.find(name);
  if (found == files_.end() || bytes == 0) return true;
  for (uint64_t sector = first / kSectorBytes; sector <= (first + bytes - 1) / kSectorBytes; ++sector) {
    if (found->second->dirty.has(sector) || found->second->dropped.has(sector)) return false;
  }
  return true;
}

uint64_t SimDisk::usedBytes() const {
  uint64_t used = 0;
  for (const auto& [name, content] : files_) used += content->cached.size();
  return used;
}

ByteSpan SimDisk::cachedBytes(std::string_view name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) return {};
  return {found->second->cached.begin(), found->second->cached.size()};
}

ByteSpan SimDisk::flushedBytes(std::string_view name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) return {};
  return {found->second->flushed.begin(), found->second->flushed.size()};
}

uint64_t SimDisk::lastChange(std::string_view name, uint64_t offset_bytes, uint64_t bytes) const {
  const auto found = files_.find(name);
  RC_CHECK(found != files_.end() && bytes > 0 && offset_bytes + bytes <= found->second->cached.size());
  const auto block = [&](uint64_t at) {
    return found->second->changes.begin() + static_cast<std::ptrdiff_t>(at / kChangeBlockBytes);
  };
  return *std::max_element(block(offset_bytes), block(offset_bytes + bytes - 1) + 1);
}

void SimDisk::flipBits(uint32_t count) {
  const uint64_t used = usedBytes();
  if (used == 0) return;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t bit = random_.below(used * 8);
    for (const auto& [name, content] : files_) {
      const uint64_t bits = content->cached.size() * 8;
      if (bit < bits) {
        flipBit(name, bit);
        break;
      }
      bit -= bits;
    }
  }
}

void SimDisk::flipBit(std::string_view name, uint64_t bit) {
  const auto found = files_.find(name);
  RC_CHECK(found != files_.end() && bit < found->second->cached.size() * 8);
  const auto mask = static_cast<std::byte>(1U << (bit % 8));
  found->second->cached[bit / 8] ^= mask;
  found->second->flushed[bit / 8] ^= mask;
  found->second->noteChange(++change_count_, bit / 8, 1);
  ++counts_.flipped_bits;
}

}  // namespace ramcore::runtime
