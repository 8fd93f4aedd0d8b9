// Replay of cold 8 MB segments: what a worker does in a recovery or a move, on one thread.
//
//   bench_replay [--rounds N] [--segments N] [--present N] [--smoke]
//
// Each entry is decoded (bounds, form, checksum), its key hashed and looked up, its version compared, the object
// copied into a side log and put into the index, which already holds `--present` other objects. Every round has a fresh
// store and replays `--segments` segments of distinct objects, each flushed from the caches before; the peer is a copy
// of the same cold bytes with nothing but a checksum over each piece of 8 KB.
//
// A second figure is of what a recovery does with a log of keys that come and go: half of the entries are tombstones,
// each in the same segment as its object, and entries and segments come newest first; nothing is left.
#include <cstring>

#include "base/crc32c.h"
#include "bench/support/flags.h"
#include "bench/support/local_store.h"
#include "bench/support/report.h"
#include "bench/support/segment_image.h"
#include "log/format/log_reader.h"
#include "log/side_log.h"
#include "store/dead_versions.h"

namespace ramcore::bench {
namespace {

struct Options {
  int rounds = 7;
  int segments = 8;
  uint64_t present = 1'000'000;
};

constexpr uint64_t kObjectsPerSegment = 56'000;  // a little more than fit
constexpr double kMopsMin = 4;

/// Replays a whole segment in groups, so that the cache misses of the entries of a group overlap.
uint64_t replaySegment(LocalStore& store, log::SideLog& side, ByteSpan bytes) {
  log::SegmentReader reader(bytes);
  constexpr size_t kBatch = 32;
  std::array<log::EntryView, kBatch> batch;
  size_t count = 0;
  uint64_t objects = 0;
  const auto replay = [&] {
    size_t done = 0;
    const Status status = store.store().replay().replayBatch(std::span(batch).first(count), side, done);
    if (status != Status::Ok) die("replay failed: " + std::string(name(status)));
    objects += done;
    count = 0;
    store.turn();
  };
  for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
    for (const log::EntryView& entry : group) batch[count++] = entry;
    if (count + log::kGroupEntriesMax > kBatch) replay();
  }
  if (count != 0) replay();
  if (reader.end() != log::WalkEnd::Clean) die("the segment is not clean");
  return objects;
}

/// GB/s of a copy with a checksum.
double copyRate(const std::vector<SegmentImage>& images, std::vector<std::byte>& to) {
  double seconds = 0;
  uint64_t bytes = 0;
  uint32_t crc = 0;
  for (const SegmentImage& image : images) {
    image.cool();
    const double begin_s = nowSeconds();
    constexpr size_t kPiece = 8192;
    for (size_t at = 0; at < image.bytes().size(); at += kPiece) {
      const ByteSpan piece = image.bytes().subspan(at, std::min(kPiece, image.bytes().size() - at));
      crc = crc32c(piece, crc);
      std::memcpy(to.data() + at, piece.data(), piece.size());
    }
    seconds += nowSeconds() - begin_s;
    bytes += image.bytes().size();
  }
  if (crc == 1) std::printf(" ");  // keeps the checksum
  return static_cast<double>(bytes) / seconds / 1e9;
}

double replayRate(const Options& options, const std::vector<SegmentImage>& images, const Keys& present) {
  uint64_t replayed = 0;
  for (const SegmentImage& image : images) replayed += image.objects();
  const uint64_t objects = present.count() + replayed;
  LocalStore store(alignUp(objects * 152 * 5 / 4 + (256 << 20), 2 << 20), objects);
  log::SideLog side(store.log(), store.log().replicator());
  // Objects of another table that are there before the replay.
  for (uint64_t first = 0; first < options.present;) {
    const SegmentImage image(present, first, TableId(2));
    (void)replaySegment(store, side, image.bytes());
    first += image.objects();
  }
  double seconds = 0;
  for (const SegmentImage& image : images) {
    image.cool();
    const double begin_s = nowSeconds();
    if (replaySegment(store, side, image.bytes()) != image.objects()) die("objects are missing");
    seconds += nowSeconds() - begin_s;
  }
  if (store.store().objectCount() != objects) die("the index does not hold everything");
  side.close();
  side.join();
  return static_cast<double>(replayed) / seconds / 1e6;
}

/// Objects and behind them their tombstones, of keys `first`, `first` + 1, ..., as many as fit.
class ChurnImage {
 public:
  ChurnImage(const Keys& keys, uint64_t first, SegmentId id) : bytes_(SegmentImage::kSegmentBytes) {
    constexpr size_t kTogether = 100;
    const std::vector<std::byte> value(kValueBytes, std::byte{'v'});
    const ByteSpan payload(value);
    size_t at = 0;
    for (uint64_t number = first; number + kTogether <= keys.count(); number += kTogether) {
      for (const log::EntryType type : {log::EntryType::Object, log::EntryType::Tombstone}) {
        for (uint64_t i = 0; i < kTogether; ++i) {
          log::EntryInput input{.type = type,
                                .table = LocalStore::kTable,
                                .version = number + i + 1,
                                .key = asBytes(keys.at(number + i)),
                                .payload = {}};
          if (type == log::EntryType::Object) input.payload = std::span(&payload, 1);
          if (type == log::EntryType::Tombstone) input.dead = log::EntryRef::fromOffset(log::EntryRef::kFirstBytes);
          if (at + input.alignedBytes() > bytes_.size()) return;
          log::writeEntry(bytes_.data() + at, input, false, id);
          starts_.push_back(at);
          at += input.alignedBytes();
        }
      }
      keys_ += kTogether;
    }
  }
  uint64_t keys() const { return keys_; }
  size_t entries() const { return starts_.size(); }
  log::EntryView newest(size_t number) const { return log::EntryView(&bytes_[starts_[starts_.size() - 1 - number]]); }
  void cool() const {
    for (size_t i = 0; i < bytes_.size(); i += 64) _mm_clflush(bytes_.data() + i);
    _mm_mfence();
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<size_t> starts_;
  uint64_t keys_ = 0;
};

/// Millions of entries per second.
double churnRate(const std::vector<ChurnImage>& images) {
  LocalStore store(256 << 20, 1'000'000);
  log::SideLog side(store.log(), store.log().replicator());
  std::vector<SegmentId> order;
  for (size_t i = images.size(); i > 0; --i) order.emplace_back(i);
  store::DeadVersions dead(order, 1);
  double seconds = 0;
  uint64_t entries = 0;
  for (size_t i = images.size(); i > 0; --i) {
    const ChurnImage& image = images[i - 1];
    image.cool();
    const double begin_s = nowSeconds();
    std::array<log::EntryView, 64> batch;
    for (size_t first = 0; first < image.entries(); first += batch.size()) {
      const size_t count = std::min(batch.size(), image.entries() - first);
      for (size_t j = 0; j < count; ++j) batch[j] = image.newest(first + j);
      size_t done = 0;
      const Status status = store.store().replay().replayBatch(std::span(batch).first(count), side, done, &dead);
      if (status != Status::Ok) die("replay failed: " + std::string(name(status)));
    }
    dead.segmentDone();
    seconds += nowSeconds() - begin_s;
    entries += image.entries();
    store.turn();
  }
  // The key whose tombstone did not fit is there.
  if (store.store().objectCount() > images.size() * 100) die("what was removed is there");
  side.close();
  side.join();
  return static_cast<double>(entries) / seconds / 1e6;
}

int run(int argc, char** argv) {
  Options options;
  Flags flags;
  flags.number("--rounds", options.rounds);
  flags.number("--segments", options.segments);
  flags.number("--present", options.present);
  flags.flag("--smoke", [&] { options = {.rounds = 1, .segments = 1, .present = 10'000}; });
  flags.parse(argc, argv);
  pinTo(kClientCore);
  const Keys keys(kObjectsPerSegment * static_cast<uint64_t>(options.segments), 3);
  const Keys present(options.present, 4);
  std::vector<SegmentImage> images;
  uint64_t first = 0;
  for (int i = 0; i < options.segments; ++i) {
    images.emplace_back(keys, first, LocalStore::kTable);
    first += images.back().objects();
  }
  std::vector<ChurnImage> churn;
  for (uint64_t at = 0, number = 1; number <= static_cast<uint64_t>(options.segments); ++number) {
    at += churn.emplace_back(keys, at, SegmentId(number)).keys();
  }
  std::vector<std::byte> to(SegmentImage::kSegmentBytes);
  std::printf("replay: %d segments of 8 MB with %llu objects, %llu others in the index\n", options.segments,
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(options.present));
  Report report("replay");
  for (int attempt = 1;; ++attempt) {
    std::vector<double> copy, replay, removed;
    for (int round = 0; round < options.rounds; ++round) {
      copy.push_back(copyRate(images, to));
      replay.push_back(replayRate(options, images, present));
      removed.push_back(churnRate(churn));
    }
    report.figure("copy with checksum", "GB/s", copy);
    report.target("replay, one worker", "M/s", replay, Report::Goal::AtLeast, kMopsMin);
    report.figure("replay of keys that were removed", "M/s", removed);
    if (!report.isNoisy("copy with checksum", copy) || attempt == 3) break;
    report.discard();
  }
  report.finish(options.rounds);
  return 0;
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) { return ramcore::bench::run(argc, argv); }
