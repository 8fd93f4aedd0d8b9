#include "master/tablet_report.h"

#include <algorithm>
#include <string>
#include <vector>

#include "rpc/control_call.h"
#include "runtime/await.h"
#include "store/range_estimate.h"
#include "wire/control.pb.h"

namespace ramcore::master {
namespace {

namespace control = wire::control;

// For all tablets together: an answer is half a megabyte at the most.
constexpr size_t kHashesMax = 64 * 1024;
// Fewer calls say nothing of a key.
constexpr size_t kSampleLeast = 16;
// A longer key is not named.
constexpr size_t kKeyBytesMax = 256;

constexpr wire::Opcode kClientCalls[] = {wire::Opcode::Read,      wire::Opcode::Write,     wire::Opcode::Remove,
                                         wire::Opcode::Increment, wire::Opcode::MultiRead, wire::Opcode::MultiMutate,
                                         wire::Opcode::Scan};

bool isAnsweredFor(const store::Tablet& tablet) {
  return tablet.state == store::TabletState::Normal || tablet.state == store::TabletState::Frozen ||
         tablet.state == store::TabletState::Arriving;
}

}  // namespace

void TabletReport::addTo(rpc::ServiceTable& table) {
  table.add<&TabletReport::tabletLoads>(wire::Opcode::TabletLoads, *this,
                                        {.roles = rpc::allow({transport::Role::Coordinator})});
}

runtime::Task<void> TabletReport::tabletLoads(rpc::Request request) {
  control::LoadsRequest ask;
  if (!rpc::parseRequest(request, ask)) co_return request.reply(Status::BadRequest);
  std::vector<store::Tablet> tablets;
  if (!ask.only_calls()) tablets = parts_.tablets.list();
  const size_t sample_max =
      std::min(store::TabletCounters::kSampleMax, kHashesMax / std::max<size_t>(tablets.size(), 1));
  control::TabletLoadsResponse answer;
  answer.set_id(parts_.self.value);
  fillCallTimes(*answer.mutable_calls());
  for (const store::Tablet& tablet : tablets) {
    if (!isAnsweredFor(tablet)) continue;
    fill(tablet, sample_max, *answer.add_tablets());
    co_await runtime::resumeOn(request.executor(), runtime::Priority::Background);
  }
  rpc::replyControl(std::move(request), answer);
}

void TabletReport::fill(const store::Tablet& tablet, size_t sample_max, control::TabletLoad& load) const {
  const store::RangeEstimate size = store::estimateRange(parts_.store, parts_.index, tablet.table, tablet.range);
  load.set_tablet(tablet.id.value);
  load.set_objects(size.objects);
  load.set_bytes(size.bytes);
  load.set_reads(tablet.counters->reads.load(std::memory_order_relaxed));
  load.set_writes(tablet.counters->writes.load(std::memory_order_relaxed));
  std::vector<KeyHash> sample = tablet.counters->sample();
  sample.resize(std::min(sample.size(), sample_max));
  std::ranges::sort(sample);
  load.mutable_called()->Add(sample.begin(), sample.end());
  if (sample.size() < kSampleLeast) return;
  // A hash with half of the sample lies in its middle.
  const KeyHash middle = sample[sample.size() / 2];
  if (std::ranges::equal_range(sample, middle).size() * 2 >= sample.size()) load.set_hot_key(keyOf(tablet, middle));
}

void TabletReport::fillCallTimes(control::CallTimes& calls) const {
  for (uint32_t bucket = 0; bucket < LogLinearHistogram::kBucketCount; ++bucket) {
    uint64_t count = 0;
    for (const wire::Opcode opcode : kClientCalls) {
      count += parts_.dispatch.stats(opcode).service_ns.bucketCountAt(bucket);
    }
    if (count == 0) continue;
    calls.add_buckets(bucket);
    calls.add_counts(count);
  }
}

std::string TabletReport::keyOf(const store::Tablet& tablet, KeyHash hash) const {
  const store::StoredEntries& entries = parts_.store.entries();
  const auto hash_of = [&entries](log::EntryRef ref) { return entries.hashOf(ref); };
  std::vector<index::IndexEntry> found;
  static_cast<void>(parts_.index.scan(hash, hash, kSampleLeast, hash_of, found));
  for (const index::IndexEntry& one : found) {
    const log::EntryView entry = entries.entry(one.ref);
    const bool is_it = !one.is_misplaced && one.hash == hash && entry.table() == tablet.table &&
                       entries.verify(one.ref) == Status::Ok && entry.keyBytes() <= kKeyBytesMax;
    if (is_it) return std::string(asText(entry.key()));
  }
  return {};
}

}  // namespace ramcore::master
