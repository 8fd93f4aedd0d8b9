#include "sim/cluster/replay_check.h"

#include <deque>
#include <map>
#include <set>

#include "log/format/log_reader.h"
#include "sim/workload/values.h"

namespace ramcore::sim {
namespace {

struct Newest {
  Version version = 0;
  bool is_tombstone = false;
  std::string value;
};

class Replay {
 public:
  Replay(const master::Master& master, runtime::Random& random) : master_(master), random_(random) {}

  std::vector<std::string> run(const std::vector<HistoryKey>& keys) {
    if (master_.log() == nullptr || !master_.log()->headId()) return {};
    for (const store::Tablet& tablet : master_.tablets().list()) {
      // The contents of a tablet that is handed over are in two logs, and may be replayed just now.
      const bool answers = tablet.state == store::TabletState::Normal || tablet.state == store::TabletState::Frozen;
      const bool is_whole = answers && tablet.arriving == nullptr;
      if (is_whole) tablets_.push_back(tablet);
    }
    if (tablets_.empty() || !collect()) return failures_;
    replayAll();
    for (const HistoryKey key : keys) compare(key);
    return failures_;
  }

 private:
  struct Found {
    SegmentId segment;
    log::EntryView entry;
  };

  bool collect() {
    const log::Log& log = *master_.log();
    const log::Segment* head = log.pool().find(log.headId());
    const std::vector<std::byte>& bytes = copy(*head);
    log::SegmentPreamble preamble;
    if (log::readPreamble(bytes, preamble) != Status::Ok || !preamble.has_digest) {
      return fail("the head has no digest");
    }
    for (uint32_t i = 0; i < preamble.digest.payload.count; ++i) {
      const SegmentId id = preamble.digest.at(i);
      const log::Segment* member = log.pool().find(id);
      if (member == nullptr) return fail("the digest lists segment " + std::to_string(id.value) + ", which is gone");
      log::SegmentReader reader(copy(*member));
      for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
        for (const log::EntryView& entry : group) entries_.push_back({id, entry});
      }
      if (reader.end() != log::WalkEnd::Clean) {
        return fail("segment " + std::to_string(id.value) + ": " + std::string(log::name(reader.end())));
      }
    }
    return true;
  }

  const std::vector<std::byte>& copy(const log::Segment& segment) {
    std::vector<std::byte>& bytes = copies_.emplace_back(segment.committedBytes());
    segment.copyOut(0, segment.committedBytes(), bytes.data());
    return bytes;
  }

  const store::Tablet* tabletOf(TableId table, KeyHash hash) const {
    for (const store::Tablet& tablet : tablets_) {
      if (tablet.table == table && tablet.range.contains(hash)) return &tablet;
    }
    return nullptr;
  }

  void replayAll() {
    for (size_t i = entries_.size(); i > 1; --i) std::swap(entries_[i - 1], entries_[random_.below(i)]);
    for (const auto& [segment, entry] : entries_) {
      const bool is_tombstone = entry.type() == log::EntryType::Tombstone;
      if (!is_tombstone && entry.type() != log::EntryType::Object) continue;
      const store::Tablet* tablet = tabletOf(entry.table(), hashKey(entry.table(), entry.key()));
      if (tablet == nullptr || segment < tablet->first_segment) continue;
      if (is_tombstone && entry.namedSegment() < tablet->first_segment) continue;
      Newest& known = newest_[{entry.table().value, std::string(asText(entry.key()))}];
      const bool wins = entry.version() > known.version || (entry.version() == known.version && is_tombstone);
      if (wins) known = {entry.version(), is_tombstone, std::string(asText(entry.payload()))};
    }
  }

  void compare(HistoryKey key) {
    const std::string bytes = keyBytes(key);
    std::set<uint64_t> tables;
    for (const store::Tablet& tablet : tablets_) tables.insert(tablet.table.value);
    for (const uint64_t number : tables) {
      const TableId table(number);
      const KeyHash hash = hashKey(table, asBytes(bytes));
      if (tabletOf(table, hash) == nullptr) continue;
      const store::Found found = master_.store().lookup(table, hash, asBytes(bytes));
      const bool present = found.ref && found.entry.type() == log::EntryType::Object;
      const auto at = newest_.find({number, bytes});
      const bool replayed = at != newest_.end() && !at->second.is_tombstone;
      const std::string what = "key " + std::to_string(key);
      if (present && !replayed) {
        fail(what + " version " + std::to_string(found.entry.version()) + " is not in the log");
      } else if (!present && replayed) {
        fail(what + " version " + std::to_string(at->second.version) + " comes back from the log");
      } else if (present && (found.entry.version() != at->second.version ||
                             asText(found.entry.payload()) != std::string_view(at->second.value))) {
        fail(what + " version " + std::to_string(found.entry.version()) + " is version " +
             std::to_string(at->second.version) + " in the log, or has another value there");
      }
    }
  }

  bool fail(const std::string& what) {
    failures_.push_back("replay of server " + std::to_string(master_.id().value) + ": " + what);
    return false;
  }

  const master::Master& master_;
  runtime::Random& random_;
  std::vector<store::Tablet> tablets_;
  std::deque<std::vector<std::byte>> copies_;  // entries point into them
  std::vector<Found> entries_;
  std::map<std::pair<uint64_t, std::string>, Newest> newest_;
  std::vector<std::string> failures_;
};

}  // namespace

std::vector<std::string> checkReplay(const master::Master& master, const std::vector<HistoryKey>& keys,
                                     runtime::Random& random) {
  return Replay(master, random).run(keys);
}

}  // namespace ramcore::sim
