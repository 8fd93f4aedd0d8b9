// Replay of cold 8 MB segments: what a worker does in a recovery or a move, on one thread.
//
//   bench_replay [--rounds N] [--segments N] [--present N] [--smoke]
//
// Each entry is decoded (bounds, form, checksum), its key hashed and looked up, its version compared, the object
// copied into a side log and put into the index, which already holds `--present` other objects. Every round has a fresh
// store and replays `--segments` segments of distinct objects, each flushed from the caches before; the peer is a copy
// of the same cold bytes with nothing but a checksum over each piece of 8 KB.
#include <cstring>

#include "base/crc32c.h"
#include "bench/support/flags.h"
#include "bench/support/local_store.h"
#include "bench/support/report.h"
#include "bench/support/segment_image.h"
#include "log/log_reader.h"
#include "log/side_log.h"

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
    const Status status = store.store().replayBatch(std::span(batch).first(count), side, done);
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
  // What is there already, of another table.
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
  std::vector<std::byte> to(SegmentImage::kSegmentBytes);
  std::printf("replay: %d segments of 8 MB with %llu objects, %llu others in the index\n", options.segments,
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(options.present));
  Report report("replay");
  for (int attempt = 1;; ++attempt) {
    std::vector<double> copy, replay;
    for (int round = 0; round < options.rounds; ++round) {
      copy.push_back(copyRate(images, to));
      replay.push_back(replayRate(options, images, present));
    }
    report.figure("copy with checksum", "GB/s", copy);
    report.target("replay, one worker", "M/s", replay, Report::Goal::AtLeast, kMopsMin);
    if (!report.isNoisy("copy with checksum", copy) || attempt == 3) break;
    report.discard();
  }
  report.finish(options.rounds);
  return 0;
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) { return ramcore::bench::run(argc, argv); }
