// The memory that an object takes beside its own bytes: log and index of one store at several sizes of the table, and
// the memory of a server process beside Redis and memcached that hold the same objects.
//
//   bench_memory [--objects N] [--resident-objects N] [--no-peers] [--smoke]
//
// The server is given so much memory that the objects take 90 % of it, headers and padding included; results of the
// load's calls are cleaned away meanwhile. The peers take what they need.
//
// Overhead: (bytes used in the log + bytes committed by the index - keys - values) / objects; the target holds for the
// worst of the sizes 1, 1.25, 1.5, 1.75 and 2 times `--objects`. Segment headers, digests and the unused ends of
// closed segments are counted. The objects come in as by a move or a recovery, so that there is nothing dead in the
// log: a client's writes also leave results in it (19 bytes in each object), until the client has acknowledged them and
// the cleaner has been there.
#include "bench/support/bench_cluster.h"
#include "bench/support/flags.h"
#include "bench/support/local_store.h"
#include "bench/support/peer_server.h"
#include "bench/support/report.h"
#include "bench/support/segment_image.h"
#include "log/format/log_reader.h"

namespace ramcore::bench {
namespace {

struct Options {
  uint64_t objects = 1'000'000;
  uint64_t resident_objects = 8'000'000;
  bool peers = true;
};

constexpr double kOverheadMax = 36;
constexpr double kUtilization = 0.9;
constexpr uint64_t kMemoryBytesMin = 256 << 20;  // in less, what is kept back for cleaning leaves no 90 %
constexpr uint64_t kObjectBytes = log::alignedEntryBytes(kKeyBytes, kValueBytes, /*has_expiry=*/false);

/// Closed segments with their unused ends, open ones as far as they are written.
uint64_t usedLogBytes(LocalStore& store) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < store.log().pool().slotCount(); ++i) {
    const log::Segment& segment = store.log().pool().slot(i);
    if (segment.state() == log::SegmentState::Free) continue;
    bytes += segment.state() == log::SegmentState::Open ? segment.committedBytes() : segment.memoryBytes();
  }
  const uint64_t bytes_min =
      store.store().objectCount() * log::alignedEntryBytes(kKeyBytes, kValueBytes, /*has_expiry=*/false);
  if (bytes < bytes_min) die("the objects take more bytes than were counted");
  return bytes;
}

double overheadNow(LocalStore& store) {
  const double objects = static_cast<double>(store.store().objectCount());
  const double used =
      static_cast<double>(usedLogBytes(store)) + static_cast<double>(store.index().stats().committed_bytes);
  return used / objects - static_cast<double>(kKeyBytes + kValueBytes);
}

void runOverhead(const Options& options, Report& report) {
  const uint64_t objects_max = options.objects * 2;
  const Keys keys(objects_max, 5);
  const uint64_t log_bytes = alignUp(objects_max * 152 * 5 / 4 + (256 << 20), 2 << 20);
  LocalStore store(log_bytes, objects_max);
  double worst = 0;
  uint64_t number = 0;
  const std::vector<std::byte> value(kValueBytes, std::byte{'v'});
  std::vector<std::byte> entry_bytes(1024);
  const ByteSpan payload(value);
  // One side log for all: to join it at every size would leave a segment with next to nothing in it each time, which
  // the cleaner of a server merges with others.
  log::SideLog side(store.log(), store.log().replicator());
  for (const int quarters : {4, 5, 6, 7, 8}) {
    for (; number < options.objects * static_cast<uint64_t>(quarters) / 4; ++number) {
      const log::EntryInput input{.type = log::EntryType::Object,
                                  .table = LocalStore::kTable,
                                  .version = number + 1,
                                  .key = asBytes(keys.at(number)),
                                  .payload = std::span(&payload, 1)};
      log::writeEntry(entry_bytes.data(), input, false, {});
      const log::EntryView entry(entry_bytes.data());
      size_t taken = 0;
      if (store.store().replay().replayBatch(std::span(&entry, 1), side, taken) != Status::Ok) die("a write failed");
      if (number % 64 == 0) store.turn();
    }
    const double bytes = overheadNow(store);
    worst = std::max(worst, bytes);
    char name[64];
    std::snprintf(name, sizeof(name), "overhead at %llu objects", static_cast<unsigned long long>(number));
    report.figure(name, "B", {bytes});
  }
  side.leave();
  report.target("overhead per object, worst", "B", {worst}, Report::Goal::AtMost, kOverheadMax);
}

/// The memory of which the objects take 90 %, header and padding included.
uint64_t memoryFor(uint64_t objects) {
  log::LogConfig config;
  const auto wanted = static_cast<double>(objects * kObjectBytes) / kUtilization;
  return alignUp(std::max(static_cast<uint64_t>(wanted), kMemoryBytesMin), config.seglet_bytes);
}

void runResident(const Options& options, Report& report) {
  const Keys keys(options.resident_objects);
  const auto perObject = [&](uint64_t before, uint64_t after) {
    return std::vector<double>{static_cast<double>(after - std::min(before, after)) /
                               static_cast<double>(options.resident_objects)};
  };
  {
    // The log's memory is touched before the server serves, so its whole size is resident, whatever is in it.
    const uint64_t memory_bytes = memoryFor(options.resident_objects);
    BenchCluster cluster("tcp", std::to_string(memory_bytes));
    const uint64_t before = cluster.server().residentBytes();
    cluster.load(keys);
    const uint64_t after = cluster.server().residentBytes();
    report.figure(
        "ramcore-server: memory for objects in use", "%",
        {100 * static_cast<double>(options.resident_objects * kObjectBytes) / static_cast<double>(memory_bytes)});
    report.figure("ramcore-server: resident in all", "B/obj", perObject(0, after));
    report.figure("ramcore-server: grown beside the log memory", "B/obj", perObject(before, after));
  }
  for (const PeerKind kind : {PeerKind::Redis, PeerKind::Memcached}) {
    PeerServer peer(kind);
    const uint64_t before = peer.process().residentBytes();
    peer.load(keys);
    const uint64_t after = peer.process().residentBytes();
    report.figure(std::string(name(kind)) + ": resident in all", "B/obj", perObject(0, after));
    report.figure(std::string(name(kind)) + ": grown", "B/obj", perObject(before, after));
  }
}

int run(int argc, char** argv) {
  Options options;
  Flags flags;
  flags.number("--objects", options.objects);
  flags.number("--resident-objects", options.resident_objects);
  flags.flag("--no-peers", [&] { options.peers = false; });
  flags.flag("--smoke", [&] { options = {.objects = 50'000, .peers = false}; });
  flags.parse(argc, argv);
  std::printf("memory: objects with %zu B of key and %zu B of value\n", kKeyBytes, kValueBytes);
  Report report("memory");
  runOverhead(options, report);
  if (options.peers) runResident(options, report);
  report.finish(1);
  return 0;
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) { return ramcore::bench::run(argc, argv); }
