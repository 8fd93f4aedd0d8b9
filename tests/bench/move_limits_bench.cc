// What bounds a move of many small objects, each part alone and on one thread: the walk of the former owner, the copy
// into an answer, the way to the new owner, and the replay there.
//
//   bench_move_limits [--rounds N] [--objects N] [--value-bytes N] [--smoke]
//
// All figures are nanoseconds for each object. The walk looks up slices of half a megabyte in the order of key hashes
// and verifies each object, as Pull does; the objects lie in memory in another order. The peers are a memcpy of the
// bytes that an answer has, and the same bytes sent in blocks of half a megabyte from one thread to another: over a
// connection of TCP on loopback, and through shared memory, which copies twice.
#include <atomic>
#include <cstring>
#include <thread>

#include "bench/support/flags.h"
#include "bench/support/local_store.h"
#include "bench/support/raw_peers.h"
#include "bench/support/report.h"
#include "bench/support/segment_image.h"
#include "log/format/log_reader.h"
#include "log/side_log.h"
#include "store/range_slice.h"

namespace ramcore::bench {
namespace {

struct Options {
  int rounds = 5;
  uint64_t objects = 1'000'000;
  uint64_t value_bytes = kValueBytes;
};

constexpr size_t kSliceBytes = 512 * 1024;
constexpr log::Keep kKeep{.name = true, .result = false};

double perObject(double seconds, uint64_t objects) { return seconds * 1e9 / static_cast<double>(objects); }

/// The objects, in the form in which a recovery or a move brings them.
class Images {
 public:
  explicit Images(const Options& options) : keys_(options.objects, 5) {
    while (objects_ < options.objects) {
      const SegmentImage& image = images_.emplace_back(keys_, objects_, LocalStore::kTable, options.value_bytes);
      objects_ += image.objects();
      bytes_ += image.bytes().size();
    }
  }
  const std::vector<SegmentImage>& all() const { return images_; }
  uint64_t objects() const { return objects_; }
  uint64_t bytes() const { return bytes_; }

 private:
  Keys keys_;
  std::vector<SegmentImage> images_;
  uint64_t objects_ = 0;
  uint64_t bytes_ = 0;
};

void replay(LocalStore& store, log::SideLog& side, ByteSpan bytes) {
  log::SegmentReader reader(bytes);
  constexpr size_t kBatch = 32;
  std::array<log::EntryView, kBatch> batch;
  size_t count = 0;
  const auto take = [&] {
    size_t done = 0;
    const Status status = store.store().replay().replayBatch(std::span(batch).first(count), side, done);
    if (status != Status::Ok) die("replay failed: " + std::string(name(status)));
    count = 0;
    store.turn();
  };
  for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
    for (const log::EntryView& entry : group) batch[count++] = entry;
    if (count + log::kGroupEntriesMax > kBatch) take();
  }
  if (count != 0) take();
  if (reader.end() != log::WalkEnd::Clean) die("the segment is not clean");
}

/// A store that holds all objects, in their order.
class FullStore {
 public:
  explicit FullStore(const Images& images)
      : store_(alignUp(images.bytes() * 5 / 4 + (64 << 20), 2 << 20), images.objects()),
        side_(store_.log(), store_.log().replicator()) {
    const double begin_s = nowSeconds();
    for (const SegmentImage& image : images.all()) replay(store_, side_, image.bytes());
    replay_s_ = nowSeconds() - begin_s;
    side_.close();
    side_.join();
    if (store_.store().objectCount() != images.objects()) die("the index does not hold everything");
  }
  double replaySeconds() const { return replay_s_; }

  /// Looks all objects up, slice by slice, and copies them into an answer if there is one.
  double walkSeconds(std::vector<std::byte>* answer) {
    const double begin_s = nowSeconds();
    uint64_t seen = 0;
    bool is_sound = true;
    const auto size_of = [&](log::EntryRef ref) {
      const log::EntryView entry = store_.store().entry(ref);
      is_sound = is_sound && entry.verify();
      return uint64_t{entry.copyBytes(kKeep)};
    };
    for (std::optional<KeyHash> cursor = 0; cursor;) {
      store::RangeSlice slice;
      const Status status =
          slice.fillByBuckets(store_.store(), store_.index(), LocalStore::kTable, {*cursor, ~KeyHash{0}},
                              {.bytes_wanted = kSliceBytes, .bytes_max = 2 * kSliceBytes}, size_of);
      if (status != Status::Ok || !is_sound) die("a slice is not read: " + std::string(name(status)));
      if (answer != nullptr) copy(slice, *answer);
      seen += slice.objects.size();
      cursor = slice.next;
      store_.turn();
    }
    if (seen != store_.store().objectCount()) die("the walk has missed objects");
    return nowSeconds() - begin_s;
  }

 private:
  void copy(const store::RangeSlice& slice, std::vector<std::byte>& answer) {
    size_t at = 0;
    for (const log::EntryRef ref : slice.objects) {
      const log::EntryView entry = store_.store().entry(ref);
      log::copyEntry(answer.data() + at, entry, kKeep);
      at += entry.copyBytes(kKeep);
    }
  }

  LocalStore store_;
  log::SideLog side_;
  double replay_s_ = 0;
};

double copySeconds(const Images& images, std::vector<std::byte>& to) {
  const double begin_s = nowSeconds();
  for (const SegmentImage& image : images.all()) std::memcpy(to.data(), image.bytes().data(), image.bytes().size());
  return nowSeconds() - begin_s;
}

/// One thread sends, this one receives.
double tcpSeconds(const Images& images, std::vector<std::byte>& to) {
  uint16_t port = 0;
  const int listener = listenOnLoopback(port);
  const int sender = connectToLoopback(port);
  const int receiver = ::accept(listener, nullptr, nullptr);
  if (sender < 0 || receiver < 0) die("no connection over loopback");
  const double begin_s = nowSeconds();
  std::thread sending([&] {
    for (const SegmentImage& image : images.all()) {
      for (size_t at = 0; at < image.bytes().size();) {
        const size_t block = std::min(kSliceBytes, image.bytes().size() - at);
        const ssize_t sent = ::send(sender, image.bytes().data() + at, block, MSG_NOSIGNAL);
        if (sent <= 0) die("the stream over loopback broke");
        at += static_cast<size_t>(sent);
      }
    }
  });
  for (uint64_t done = 0; done < images.bytes();) {
    const ssize_t got = ::recv(receiver, to.data(), kSliceBytes, 0);
    if (got <= 0) die("the stream over loopback broke");
    done += static_cast<uint64_t>(got);
  }
  const double seconds = nowSeconds() - begin_s;
  sending.join();
  for (const int fd : {listener, sender, receiver}) ::close(fd);
  return seconds;
}

/// As tcpSeconds(), through two blocks that both threads see. Both spin: that is what they would do for so short a
/// time.
double sharedSeconds(const Images& images, std::vector<std::byte>& to) {
  struct alignas(64) Block {
    std::atomic<size_t> bytes{0};  // 0: it may be written
    std::array<std::byte, kSliceBytes> content;
  };
  const auto blocks = std::make_unique<std::array<Block, 2>>();
  const double begin_s = nowSeconds();
  std::thread sending([&] {
    size_t next = 0;
    for (const SegmentImage& image : images.all()) {
      for (size_t at = 0; at < image.bytes().size();) {
        Block& block = (*blocks)[next++ % blocks->size()];
        while (block.bytes.load(std::memory_order_acquire) != 0) _mm_pause();
        const size_t bytes = std::min(kSliceBytes, image.bytes().size() - at);
        std::memcpy(block.content.data(), image.bytes().data() + at, bytes);
        block.bytes.store(bytes, std::memory_order_release);
        at += bytes;
      }
    }
  });
  size_t next = 0;
  for (uint64_t done = 0; done < images.bytes();) {
    Block& block = (*blocks)[next++ % blocks->size()];
    size_t bytes = 0;
    while ((bytes = block.bytes.load(std::memory_order_acquire)) == 0) _mm_pause();
    std::memcpy(to.data(), block.content.data(), bytes);
    block.bytes.store(0, std::memory_order_release);
    done += bytes;
  }
  const double seconds = nowSeconds() - begin_s;
  sending.join();
  return seconds;
}

int run(int argc, char** argv) {
  Options options;
  Flags flags;
  flags.number("--rounds", options.rounds);
  flags.number("--objects", options.objects);
  flags.number("--value-bytes", options.value_bytes);
  flags.flag("--smoke", [&] { options = {.rounds = 1, .objects = 20'000, .value_bytes = kValueBytes}; });
  flags.parse(argc, argv);
  const Images images(options);
  std::vector<std::byte> to(SegmentImage::kSegmentBytes);
  std::printf("limits of a move: %llu objects with values of %llu B, %llu bytes in all; ns for each object\n",
              static_cast<unsigned long long>(images.objects()), static_cast<unsigned long long>(options.value_bytes),
              static_cast<unsigned long long>(images.bytes()));
  std::vector<double> copy, tcp, shared, walk, walk_and_copy, replayed;
  for (int round = 0; round < options.rounds; ++round) {
    FullStore store(images);
    replayed.push_back(perObject(store.replaySeconds(), images.objects()));
    walk.push_back(perObject(store.walkSeconds(nullptr), images.objects()));
    walk_and_copy.push_back(perObject(store.walkSeconds(&to), images.objects()));
    copy.push_back(perObject(copySeconds(images, to), images.objects()));
    tcp.push_back(perObject(tcpSeconds(images, to), images.objects()));
    shared.push_back(perObject(sharedSeconds(images, to), images.objects()));
  }
  Report report("move_limits");
  report.figure("memcpy", "ns", copy);
  report.figure("stream over loopback TCP, two threads", "ns", tcp);
  report.figure("stream through shared memory, two threads", "ns", shared);
  report.figure("walk of the source, verified", "ns", walk);
  report.figure("walk and copy into answers", "ns", walk_and_copy);
  report.figure("replay, one worker", "ns", replayed);
  report.finish(options.rounds);
  return 0;
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) { return ramcore::bench::run(argc, argv); }
