#include "tools/support/metrics_server.h"

#include <CivetServer.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "base/number.h"
#include "wire/server_numbers.h"

namespace ramcore::tools {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using State = wire::ServerNumbers;

constexpr double kSecondsPerNano = 1e-9;
constexpr const char* kThreads = "4";
constexpr const char* kTimeoutMs = "1000";
// Counts for all metrics endpoints of the process: the library's callback knows none of our objects.
std::atomic<uint64_t> bad_scrapes{0};
// Bounds of exported buckets: powers of two of nanoseconds, from 256 ns to 17 s. The counted buckets end there too.
constexpr uint32_t kFirstBoundLog2 = 8;
constexpr uint32_t kLastBoundLog2 = 34;

// The memory that the kernel gave this process in huge pages, nearly all of it log memory: the kernel does not always
// take the advice to do so. 0 if it does not say how much it is.
double hugePageBytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  double bytes = 0;
  for (std::string line; std::getline(rollup, line);) {
    for (const std::string_view name : {"AnonHugePages:", "Private_Hugetlb:"}) {
      if (line.starts_with(name)) bytes += std::strtod(line.c_str() + name.size(), nullptr) * 1024;
    }
  }
  return bytes;
}

class Families {
 public:
  MetricFamily& add(const char* name, const char* help, MetricType type) {
    return families_.emplace_back(MetricFamily{name, help, type, {}});
  }
  MetricFamily& add(const NumberMeaning& meaning) {
    const MetricType type = meaning.kind == NumberKind::Gauge ? MetricType::Gauge : MetricType::Counter;
    return families_.emplace_back(MetricFamily{std::string(meaning.metric), std::string(meaning.help), type, {}});
  }
  void counter(const char* name, const char* help, uint64_t value) {
    addCounter(add(name, help, MetricType::Counter), {}, value);
  }
  void gauge(const char* name, const char* help, double value) {
    addGauge(add(name, help, MetricType::Gauge), {}, value);
  }
  // Adds a number that is also part of the state that servers report.
  template <auto kMember, typename Value>
  void number(Value value) {
    constexpr NumberMeaning kMeaning = wire::meaningInMetrics<kMember>();
    addNumber(add(kMeaning), {}, kMeaning.kind, static_cast<double>(value));
  }
  static void addNumber(MetricFamily& family, const std::vector<ClientMetric::Label>& labels, NumberKind kind,
                        double value) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = labels;
    (kind == NumberKind::Gauge ? metric.gauge.value : metric.counter.value) = value;
  }
  static void addCounter(MetricFamily& family, const std::vector<ClientMetric::Label>& labels, uint64_t value) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = labels;
    metric.counter.value = static_cast<double>(value);
  }
  static void addGauge(MetricFamily& family, const std::vector<ClientMetric::Label>& labels, double value) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = labels;
    metric.gauge.value = value;
  }
  static void addHistogram(MetricFamily& family, const std::vector<ClientMetric::Label>& labels,
                           const LogLinearHistogram& counted) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = labels;
    uint64_t cumulative = 0;
    uint32_t next = 0;
    for (uint32_t bound = kFirstBoundLog2; bound <= kLastBoundLog2; ++bound) {
      const uint64_t value_ns = uint64_t{1} << bound;
      for (; LogLinearHistogram::upperBoundOf(next) < value_ns; ++next) cumulative += counted.bucketCountAt(next);
      metric.histogram.bucket.push_back({cumulative, static_cast<double>(value_ns) * kSecondsPerNano});
    }
    for (; next < LogLinearHistogram::kBucketCount; ++next) cumulative += counted.bucketCountAt(next);
    metric.histogram.bucket.push_back({cumulative, std::numeric_limits<double>::infinity()});
    metric.histogram.sample_count = cumulative;
    metric.histogram.sample_sum = static_cast<double>(counted.sum()) * kSecondsPerNano;
  }
  std::vector<MetricFamily> take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
};

void collectRequests(const rpc::Dispatch& dispatch, Families& out) {
  MetricFamily requests{"ramcore_requests_total", "Requests answered", MetricType::Counter, {}};
  MetricFamily failures{
      "ramcore_request_failures_total", "Requests answered with a status other than Ok", MetricType::Counter, {}};
  MetricFamily queue{"ramcore_request_queue_seconds",
                     "From a request's arrival to the start of its handler",
                     MetricType::Histogram,
                     {}};
  MetricFamily service{
      "ramcore_request_service_seconds", "From the start of a handler to its answer", MetricType::Histogram, {}};
  for (uint16_t number = 0; number < wire::kOpcodeCount; ++number) {
    const auto opcode = static_cast<wire::Opcode>(number);
    if (wire::name(opcode) == "Unknown") continue;
    const rpc::OpcodeStats& stats = dispatch.stats(opcode);
    const uint64_t count = stats.requests.load(std::memory_order_relaxed);
    if (count == 0) continue;  // keeps a scrape short; a series begins with its first request
    const std::vector<ClientMetric::Label> labels = {{"opcode", std::string(wire::name(opcode))}};
    Families::addCounter(requests, labels, count);
    Families::addCounter(failures, labels, stats.failures.load(std::memory_order_relaxed));
    Families::addHistogram(queue, labels, stats.queue_ns);
    Families::addHistogram(service, labels, stats.service_ns);
  }
  for (MetricFamily* family : {&requests, &failures, &queue, &service}) {
    out.add(family->name.c_str(), family->help.c_str(), family->type).metric = std::move(family->metric);
  }
}

// One series for each endpoint, by its transport.
void collectEndpoints(const rpc::Dispatch& dispatch, Families& out) {
  for (const Number<rpc::EndpointCounts>& number : rpc::kEndpointNumbers) {
    MetricFamily& family = out.add(number.meaning);
    for (size_t i = 0; i < dispatch.endpoints().size(); ++i) {
      const std::vector<ClientMetric::Label> labels = {
          {"transport", std::string(dispatch.endpoints()[i]->limits().name)}};
      Families::addNumber(family, labels, number.meaning.kind, number.read(dispatch.endpointCounts(i)));
    }
  }
}

void collectDispatch(const rpc::Dispatch& dispatch, Families& out) {
  collectEndpoints(dispatch, out);
  out.counter("ramcore_bad_requests_total", "Requests refused before any handler saw them", dispatch.badRequests());
  out.counter("ramcore_wakeups_total", "Times the dispatch thread was woken from sleep", dispatch.wakeups());
}

// How many numbers of each kind are reported below, and which are not. With a new number this has to be decided here.
static_assert(fieldCount<log::LogStats>() == 25 + 3,
              "not reported are large_bytes, side_bytes and entries_marked_freed");
static_assert(fieldCount<master::PinnedValues::Stats>() == 6);
static_assert(fieldCount<index::IndexStats>() == 8);
static_assert(fieldCount<master::ReplicaManager::Stats>() == 6 + 2, "not reported are flushes and repairs");
static_assert(fieldCount<master::RecoveryTarget::Stats>() == 5);
static_assert(fieldCount<master::ArrivalStats>() == 3 && fieldCount<master::ArrivalTimes>() == 3);
static_assert(fieldCount<master::PriorityPulls::Stats>() == 3);
static_assert(fieldCount<backup::StoreStats>() == 7 + 2, "not reported are frames_kept and refused_full");
static_assert(fieldCount<master::MasterService::Stats>() == 5);

void collectLog(const log::Log& log, Families& out) {
  const log::LogStats& stats = log.stats();
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  out.number<&State::memory_bytes>(log.config().memory_bytes);
  out.gauge("ramcore_huge_page_bytes", "Memory of this process that lies in huge pages", hugePageBytes());
  out.gauge("ramcore_log_live_bytes", "Bytes of entries that are still needed",
            static_cast<double>(read(stats.live_bytes)));
  out.number<&State::live_bytes_max>(log.limit().liveBytesMax());
  out.gauge("ramcore_log_held_bytes", "Room that is held for tablets which are being handed over to this server",
            static_cast<double>(log.limit().heldBytes()));
  out.gauge("ramcore_log_tombstone_bytes", "Part of the live bytes: tombstones",
            static_cast<double>(read(stats.tombstone_bytes)));
  out.gauge("ramcore_log_tombstone_table_bytes", "Memory beside --memory that counts in which segments tombstones are",
            static_cast<double>(log.pool().tombstones().bytes()));
  out.gauge("ramcore_log_succeeded_bytes",
            "Bytes that tombstones would take if all objects died that have replaced others",
            static_cast<double>(read(stats.succeeded_bytes)));
  out.number<&State::result_bytes>(read(stats.result_bytes));
  out.gauge("ramcore_log_free_bytes", "Memory of the log that holds nothing",
            static_cast<double>(log.pool().freeBytes()));
  out.gauge("ramcore_log_free_block_bytes", "Part of the free memory of the log: runs that take the largest entry",
            static_cast<double>(log.pool().freeBlockBytes()));
  out.gauge("ramcore_log_pinned_bytes", "Memory that has left the log and is kept for answers in transmission",
            static_cast<double>(read(stats.pinned_bytes)));
  out.counter("ramcore_log_appended_entries_total", "Entries appended", read(stats.appended_entries));
  out.number<&State::appended_bytes>(read(stats.appended_bytes));
  out.counter("ramcore_log_heads_opened_total", "Segments opened as head", read(stats.heads_opened));
  out.counter("ramcore_log_small_heads_opened_total", "Heads from the reserve for a full memory",
              read(stats.small_heads_opened));
  out.counter("ramcore_log_refused_no_space_total", "Writes refused because memory is full",
              read(stats.refused_no_space));
  out.counter("ramcore_log_refused_retry_later_total", "Appends that found no open head with room",
              read(stats.refused_retry_later));
  out.counter("ramcore_cleaner_passes_total", "Passes of the cleaner", read(stats.cleaner_passes));
  out.counter("ramcore_cleaner_compacted_segments_total", "Segments compacted in memory",
              read(stats.segments_compacted));
  out.number<&State::compaction_copied_bytes>(read(stats.compaction_bytes_copied));
  out.number<&State::compaction_freed_bytes>(read(stats.compaction_bytes_freed));
  out.gauge("ramcore_cleaner_workers", "Workers that clean now", static_cast<double>(read(stats.cleaners)));
  out.counter("ramcore_cleaner_shared_copied_bytes_total",
              "Part of the copied bytes: those that other workers than the first have moved",
              read(stats.cleaner_bytes_shared));
  out.counter("ramcore_cleaner_segments_total", "Segments cleaned", read(stats.segments_cleaned));
  out.number<&State::cleaner_copied_bytes>(read(stats.cleaner_bytes_copied));
  out.number<&State::cleaner_freed_bytes>(read(stats.cleaner_bytes_freed));
}

void collectPinned(const master::PinnedValues& pinned, Families& out) {
  const master::PinnedValues::Stats& stats = pinned.stats();
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  out.gauge("ramcore_pinned_value_bytes",
            "Bytes of values that answers in transmission show from where they lie in the log",
            static_cast<double>(read(stats.pinned_bytes)));
  out.gauge("ramcore_pinned_bytes_max", "Bound of the pinned bytes, of values and of memory of the log",
            static_cast<double>(pinned.bytesMax()));
  out.gauge("ramcore_pin_copied_bytes", "Bytes of values that answers hold copies of, in place of pins",
            static_cast<double>(read(stats.copied_bytes)));
  out.counter("ramcore_pin_values_copied_total", "Values copied because too much was pinned, or the answer had to wait",
              read(stats.values_copied));
  out.counter("ramcore_pins_total", "Values that answers showed from where they lie in the log",
              read(stats.values_borrowed));
  out.counter("ramcore_pins_ended_total",
              "Values that answers showed from where they lie in the log, and that were sent, dropped or copied since",
              read(stats.values_back));
  out.counter("ramcore_pin_refusals_total", "Reads put off because copies were at their bound, too",
              read(stats.refused));
}

void collectIntegrity(const log::LogStats& stats, Families& out) {
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  out.counter("ramcore_log_scrubbed_bytes_total", "Bytes of the log in memory that were verified",
              read(stats.scrubbed_bytes));
  out.number<&State::damaged_entries>(read(stats.damaged_entries));
  out.counter("ramcore_log_restored_entries_total", "Damaged entries in memory whose bytes came back from a replica",
              read(stats.restored_entries));
  out.counter("ramcore_log_mended_states_total", "Flipped bits in bytes that have no checksum and need no replica",
              read(stats.mended_states));
  out.number<&State::damaged_now>(read(stats.damaged_now));
}

void collectIndex(const index::HashIndex& index, Families& out) {
  const index::IndexStats stats = index.stats();
  out.number<&State::objects>(stats.entries);
  out.gauge("ramcore_index_buckets", "Buckets of the hash index", static_cast<double>(stats.buckets));
  out.gauge("ramcore_index_overflow_lines", "Overflow lines in use", static_cast<double>(stats.overflow_lines));
  out.number<&State::index_bytes>(stats.committed_bytes);
  if (stats.entries > 0) {
    out.gauge("ramcore_object_overhead_bytes", "Bytes an object takes beside key and value: entry header and index",
              log::kEntryHeaderBytes + static_cast<double>(stats.committed_bytes) / static_cast<double>(stats.entries));
  }
  out.gauge("ramcore_index_splits_per_operation_max", "Most buckets split by one operation",
            static_cast<double>(stats.splits_per_operation_max));
  out.counter("ramcore_index_splits_total", "Buckets split", stats.splits);
  out.counter("ramcore_index_splits_put_off_total", "Splits left to a later operation", stats.splits_put_off);
  out.counter("ramcore_index_relocations_refused_total", "Relocations that met an entry which had gone",
              stats.relocations_refused);
}

void collectReplicas(const master::ReplicaManager& replicas, Families& out) {
  const master::ReplicaManager::Stats& stats = replicas.stats();
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  out.counter("ramcore_replica_writes_total", "Writes to replicas on other servers", read(stats.writes));
  out.number<&State::replica_bytes>(read(stats.bytes));
  out.counter("ramcore_replicas_lost_total", "Replicas given up because their server failed",
              read(stats.replicas_lost));
  out.counter("ramcore_replica_floors_raised_total", "Changes of the replicas of an open head",
              read(stats.floors_raised));
  out.number<&State::replicas_wanted>(replicas.copyCount());
  out.number<&State::replicas_least>(read(stats.least));
  out.number<&State::segments_repairing>(read(stats.repairing));
}

void collectRecovery(const master::RecoveryTarget::Stats& stats, Families& out) {
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  out.counter("ramcore_recovery_replayed_bytes_total", "Bytes of entries of dead servers' logs that were replayed",
              read(stats.replayed_bytes));
  out.counter("ramcore_recovery_waits_for_room_total",
              "Pauses of recoveries because the log had no room, or for a damaged entry", read(stats.waits_for_room));
  out.counter("ramcore_recovery_early_joins_total", "Parts of recoveries that joined the log so that it can be cleaned",
              read(stats.early_joins));
  out.gauge("ramcore_recovery_notes_bytes", "Memory for what tombstones said in recoveries that run",
            static_cast<double>(read(stats.notes_bytes)));
  out.gauge("ramcore_recovery_notes_bytes_max", "The most memory that recoveries have used for what tombstones said",
            static_cast<double>(read(stats.notes_bytes_max)));
}

void collectMoves(const master::MigrationTarget& target, Families& out) {
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  out.counter("ramcore_move_objects_arrived_total", "Objects that moves have brought to this server",
              read(target.stats().objects_arrived));
  out.counter("ramcore_move_priority_pulls_total",
              "Requests for keys for which calls waited, to the server that had them",
              read(target.stats().priority_pulls));
  out.counter("ramcore_move_early_writes_total",
              "Writes that did not wait for their key, which had not arrived; counted when their move ends",
              read(target.stats().early_writes));
  out.counter(
      "ramcore_move_source_wait_nanoseconds_total",
      "Time for which parts of moves waited for a slice from the server that had it; parts wait beside each other",
      read(target.stats().times.source_wait_ns));
  out.counter("ramcore_move_replay_nanoseconds_total", "Time in which slices were checked and taken into memory",
              read(target.stats().times.replay_ns));
  out.counter("ramcore_move_room_wait_nanoseconds_total",
              "Time for which slices waited until the cleaner had made room", read(target.stats().times.room_wait_ns));
  out.counter("ramcore_move_waits_total", "Calls that waited for a key which had not arrived",
              read(target.waitStats().waits));
  out.counter("ramcore_move_waits_refused_total", "Calls that were refused because their key had not arrived in time",
              read(target.waitStats().refused));
  out.gauge("ramcore_move_waiting_calls", "Calls that wait now for a key which has not arrived",
            static_cast<double>(read(target.waitStats().waiting)));
}

void collectBackup(const backup::Backup& backup, Families& out) {
  const backup::StoreStats& stats = backup.store().stats();
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  out.number<&State::frames_total>(read(stats.frames_total));
  out.number<&State::frames_free>(read(stats.frames_free));
  out.counter("ramcore_backup_written_bytes_total", "Bytes of replicas written", read(stats.bytes_written));
  const backup::FrameWriter& writer = backup.store().writer();
  out.counter("ramcore_backup_writes_handed_over_total", "Writes into the storage that its own thread did",
              writer.handedOver());
  out.gauge("ramcore_backup_writes_waiting_bytes", "Bytes of replicas that wait to be written",
            static_cast<double>(writer.queuedBytes()));
  out.gauge("ramcore_backup_write_longest_seconds", "The longest that one write into the page cache has taken",
            static_cast<double>(writer.longestNs()) / 1e9);
  out.counter("ramcore_backup_flushes_total", "Flushes of the storage to its disk", read(stats.flushes));
  out.counter("ramcore_backup_corrupt_frames_total", "Replicas whose bytes were not what their certificate says",
              read(stats.corrupt_frames));
  out.counter("ramcore_backup_scrubbed_bytes_total", "Bytes of replicas that were read again to verify them",
              read(stats.checked_bytes));
  out.number<&State::storage_failed>(read(stats.condemned) ? 1 : 0);
  out.counter("ramcore_backup_fenced_refusals_total", "Writes and frees of dead servers that were refused",
              backup.service().fencedRefusals());
}

void collectMaster(const master::Master& master, int64_t now_ns, Families& out) {
  const master::MasterService::Stats& stats = master.service()->stats();
  out.counter("ramcore_duplicates_answered_total", "Repeated calls answered from their result record",
              stats.duplicates_answered.load(std::memory_order_relaxed));
  out.counter("ramcore_stale_epochs_total", "Requests with an old tablet epoch",
              stats.stale_epochs.load(std::memory_order_relaxed));
  out.counter("ramcore_lease_refusals_total", "Requests refused because a lease could not be confirmed",
              stats.lease_refusals.load(std::memory_order_relaxed));
  out.counter("ramcore_waits_for_room_total", "Times that a mutation found no room in the log and was put off a little",
              stats.waits_for_room.load(std::memory_order_relaxed));
  out.counter("ramcore_waits_for_hand_over_total",
              "Times that a mutation found its tablet about to be handed over and was put off a little",
              stats.waits_for_hand_over.load(std::memory_order_relaxed));
  out.gauge("ramcore_lease_remaining_seconds", "How long this server may still answer; below 0 when it may not",
            static_cast<double>(master.lease().validUntilNs() - now_ns) * kSecondsPerNano);
  out.gauge("ramcore_fenced", "1 if the coordinator has declared this server dead", master.lease().isFenced() ? 1 : 0);
  collectLog(*master.log(), out);
  collectPinned(*master.pinnedValues(), out);
  collectIntegrity(master.log()->stats(), out);
  collectIndex(master.index(), out);
  out.gauge("ramcore_removed_keys", "Keys that were removed and are still in the index, until that is durable",
            static_cast<double>(master.store().tombstones().size()));
  if (master.replicas() != nullptr) collectReplicas(*master.replicas(), out);
  collectRecovery(master.recoveryTarget()->stats(), out);
  collectMoves(*master.migrationTarget(), out);
}

}  // namespace

class MetricsServer::Numbers final : public prometheus::Collectable {
 public:
  Numbers(const rpc::Dispatch& dispatch, runtime::Clock& clock) : dispatch_(dispatch), clock_(clock) {}

  void setMaster(const master::Master& master) { master_.store(&master, std::memory_order_release); }
  void setCoordinator(const coordinator::Coordinator& coordinator) {
    coordinator_.store(&coordinator, std::memory_order_release);
  }
  void setBackup(const backup::Backup& backup) { backup_.store(&backup, std::memory_order_release); }

  std::vector<MetricFamily> Collect() const override {
    Families out;
    collectRequests(dispatch_, out);
    collectDispatch(dispatch_, out);
    out.counter("ramcore_metrics_bad_requests_total", "Requests for metrics that made no sense or never arrived",
                bad_scrapes.load(std::memory_order_relaxed));
    const master::Master* master = master_.load(std::memory_order_acquire);
    if (master != nullptr) collectMaster(*master, clock_.nowNs(), out);
    const backup::Backup* backup = backup_.load(std::memory_order_acquire);
    if (backup != nullptr) collectBackup(*backup, out);
    const coordinator::Coordinator* coordinator = coordinator_.load(std::memory_order_acquire);
    if (coordinator != nullptr) {
      out.gauge("ramcore_coordinator_storage_full",
                "1 while the disk of the coordinator's storage is full: nothing can be changed",
                coordinator->isStorageFull() ? 1 : 0);
    }
    return out.take();
  }

 private:
  const rpc::Dispatch& dispatch_;
  runtime::Clock& clock_;
  std::atomic<const master::Master*> master_{nullptr};
  std::atomic<const backup::Backup*> backup_{nullptr};
  std::atomic<const coordinator::Coordinator*> coordinator_{nullptr};
};

MetricsServer::MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, std::shared_ptr<Numbers> numbers)
    : numbers_(std::move(numbers)), exposer_(std::move(exposer)) {}

MetricsServer::~MetricsServer() = default;

void MetricsServer::setMaster(const master::Master& master) { numbers_->setMaster(master); }

void MetricsServer::setCoordinator(const coordinator::Coordinator& coordinator) {
  numbers_->setCoordinator(coordinator);
}

void MetricsServer::setBackup(const backup::Backup& backup) { numbers_->setBackup(backup); }

Outcome<std::unique_ptr<MetricsServer>> MetricsServer::open(const std::string& where, const rpc::Dispatch& dispatch,
                                                            runtime::Clock& clock) {
  const size_t colon = where.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == where.size() ||
      where.find_first_not_of("0123456789", colon + 1) != std::string::npos) {
    return Failure{Status::BadConfig, "metrics address '" + where + "' is not host:port, for example 127.0.0.1:9100"};
  }
  if (where.starts_with('[') && mg_check_feature(MG_FEATURES_IPV6) == 0) {
    return Failure{Status::BadConfig, "cannot serve metrics at " + where +
                                          ": the HTTP library of this build has no IPv6; give an IPv4 address with "
                                          "--metrics, for example 127.0.0.1" +
                                          where.substr(colon)};
  }
  auto numbers = std::make_shared<Numbers>(dispatch, clock);
  CivetCallbacks callbacks;
  callbacks.http_error = [](mg_connection*, int, const char*) {
    bad_scrapes.fetch_add(1, std::memory_order_relaxed);
    return 1;  // 1: the library goes on with its own page
  };
  // A request that does not arrive holds a thread until the timeout: with several of them others still get through.
  const std::vector<std::string> options = {"listening_ports",    where,      "num_threads",           kThreads,
                                            "request_timeout_ms", kTimeoutMs, "keep_alive_timeout_ms", "0"};
  // The library throws when it cannot bind; here its exception ends.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(options, &callbacks);
    exposer->RegisterCollectable(numbers);
    return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(exposer), std::move(numbers)));
  } catch (const std::exception&) {
    return Failure{Status::InUse, "cannot serve metrics at " + where +
                                      ": another process has the port, or the "
                                      "address is not of this machine; choose another one with --metrics"};
  }
}

}  // namespace ramcore::tools
