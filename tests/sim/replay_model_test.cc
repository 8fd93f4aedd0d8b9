// "Replaying the log in any order gives the model": log, index, cleaner, splits and result records under random
// mutations, each seed another history. RAMCORE_REPLAY_SEEDS says how many (tools/test sets it).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "log/cleaning/cleaner.h"
#include "log/format/log_reader.h"
#include "runtime/random.h"
#include "runtime/sim/sim_epoch.h"
#include "store/object_store.h"

namespace ramcore::master {
namespace {

constexpr TableId kTable{7};

struct ModelObject {
  Version version = 0;
  std::string value;
};

/// Log, index and object store of one server, on one thread and without requests.
class StoreParts {
 protected:
  StoreParts(const log::LogConfig& config, ServerId id)
      : pins_(1),
        memory_(std::move(log::LogMemory::open(config.memory_bytes)).value()),
        index_(std::move(index::HashIndex::open(index::IndexConfig::forTest(), rcu_)).value()),
        tablets_(rcu_),
        store_(*memory_),
        log_(config, {ClusterId(1), id}, *memory_, {store_, replicator_, rcu_, pins_}) {
    results_.connect(log_);
    store_.connect({log_, *index_, tablets_, results_, lease_, clock_});
    lease_.renewed(clock_.nowNs(), runtime::kNever / 2);
    reader_ = rcu_.registerThread();
    log_.maintain();
  }
  ~StoreParts() {
    rcu_.unregisterThread(reader_);
    rcu_.drain();
  }
  StoreParts(const StoreParts&) = delete;
  StoreParts& operator=(const StoreParts&) = delete;

  void copySegments(std::vector<std::vector<std::byte>>& segments) {
    const auto head = log_.pool().find(log_.headId());
    ASSERT_NE(head, nullptr);
    const std::vector<std::byte> head_bytes = bytesOfSegment(*head);
    log::SegmentPreamble preamble;
    ASSERT_EQ(log::readPreamble(head_bytes, preamble), Status::Ok);
    ASSERT_TRUE(preamble.has_digest);
    for (uint32_t i = 0; i < preamble.digest.payload.count; ++i) {
      const auto member = log_.pool().find(preamble.digest.at(i));
      ASSERT_NE(member, nullptr) << "the digest lists a segment that is gone";
      segments.push_back(bytesOfSegment(*member));
    }
  }

  static std::vector<std::byte> bytesOfSegment(const log::Segment& segment) {
    std::vector<std::byte> bytes(segment.committedBytes());
    segment.copyOut(0, segment.committedBytes(), bytes.data());
    return bytes;
  }

  runtime::ManualClock clock_;
  runtime::SimRcu rcu_;
  runtime::PinRegistry pins_;
  std::unique_ptr<log::LogMemory> memory_;
  std::unique_ptr<index::HashIndex> index_;
  store::ServerLease lease_;
  store::TabletTable tablets_;
  store::ResultTable results_;
  store::ObjectStore store_;
  log::NoReplicator replicator_;
  log::Log log_;
  runtime::RcuReader reader_{};
};

/// A server that takes entries of another one's log.
class ReplayTarget : private StoreParts {
 public:
  ReplayTarget() : StoreParts(config(), ServerId(3)) {}

  /// In this order, some at a time. With `dead`, a log as it is.
  void take(std::span<const log::EntryView> entries, runtime::Random& random, store::DeadVersions* dead = nullptr) {
    log::SideLog side(log_, replicator_);
    while (!entries.empty()) {
      const auto batch = entries.first(std::min<size_t>(entries.size(), 1 + random.below(64)));
      size_t taken = 0;
      ASSERT_EQ(store_.replay().replayBatch(batch, side, taken, dead), Status::Ok);
      ASSERT_EQ(taken, batch.size());
      entries = entries.subspan(batch.size());
      turn();
    }
    side.close();
    while (!side.isClosed()) turn();
    side.join();
    while (!side.isJoined()) turn();
  }
  store::Found find(const std::string& key) {
    return store_.lookup(kTable, hashKey(kTable, asBytes(key)), asBytes(key));
  }
  uint64_t objectCount() const { return store_.objectCount(); }
  /// As if the client called again.
  store::ResultTable::Lookup findResult(const wire::CallIdentity& identity) { return results_.find(identity); }
  Version safeVersion() const { return store_.safeVersionNow(); }
  void raiseSafeVersion(Version version) { store_.raiseSafeVersion(version); }
  /// Copies the segments that a recovery of this server would read.
  void copySegments(std::vector<std::vector<std::byte>>& segments) { StoreParts::copySegments(segments); }

 private:
  static log::LogConfig config() {
    log::LogConfig config = log::LogConfig::forTest();
    config.memory_bytes *= 8;  // nothing is cleaned here
    return config;
  }
  void turn() {
    rcu_.quiescent(reader_);
    rcu_.reclaim(1000);
    log_.maintain();
  }
};

class ReplayModel : private StoreParts {
 public:
  explicit ReplayModel(uint64_t seed)
      : StoreParts(log::LogConfig::forTest(), ServerId(2)), random_(seed), cleaner_(log_, store_, replicator_) {
    store::Tablet whole;
    whole.id = TabletId(1);
    whole.table = kTable;
    whole.epoch = TabletEpoch(1);
    EXPECT_EQ(tablets_.add(whole), Status::Ok);
    for (uint64_t client = 1; client <= kClients; ++client) results_.admit(ClientId(client), 0);
  }
  ~ReplayModel() {
    for (int i = 0; i < 100; ++i) turn();
  }

  void run(size_t operations) {
    for (size_t i = 0; i < operations && !::testing::Test::HasFatalFailure(); ++i) {
      mutateOnce();
      if (random_.below(3) == 0) turn();
      if (random_.below(40) == 0) splitOnce();
      if (random_.below(operations / 4) == 0) check();
      if (random_.below(operations) == 0 || (cleaner_.isBusy() && random_.below(operations / 2) == 0)) {
        recoverElsewhereBySegments();
      }
    }
    check();
  }

  /// The objects of the log, dead ones too, in any order into another server: the newest of each key is there.
  void replayElsewhere() {
    std::vector<std::vector<std::byte>> segments;
    std::vector<log::EntryView> objects;
    std::map<std::string, log::EntryView> newest;
    for (const log::EntryView& entry : shuffledEntries(segments)) {
      if (entry.type() != log::EntryType::Object) continue;
      objects.push_back(entry);
      log::EntryView& known = newest[std::string(asText(entry.key()))];
      if (!known || entry.version() > known.version()) known = entry;
    }
    ReplayTarget target;
    target.take(objects, random_);
    ASSERT_EQ(target.objectCount(), newest.size());
    for (const auto& [key, entry] : newest) {
      const store::Found found = target.find(key);
      ASSERT_TRUE(found.ref && found.entry.type() == log::EntryType::Object) << key;
      ASSERT_EQ(found.entry.version(), entry.version()) << key;
      ASSERT_TRUE(std::ranges::equal(found.entry.payload(), entry.payload())) << key;
      ASSERT_TRUE(found.entry.verify()) << key;
      ++replayed_;
    }
  }

  /// The log as it is, dead entries, tombstones and all, in any order and some of it twice, into another server: it has
  /// what this one has. And its own log says the same.
  void recoverElsewhere() {
    std::vector<std::vector<std::byte>> segments;
    std::vector<log::EntryView> entries;
    Version safe_version = 0;
    for (const log::EntryView& entry : shuffledEntries(segments)) {
      if (entry.type() == log::EntryType::SafeVersion) {
        safe_version = std::max(safe_version, entry.payloadAs<log::SafeVersionPayload>().version);
      }
      if (!isContents(entry)) continue;
      entries.push_back(entry);
      if (random_.below(5) == 0) entries.insert(entries.begin() + random_.below(entries.size()), entry);
    }
    ReplayTarget target;
    store::DeadVersions dead(1);
    // Of keys whose last traces are gone from the log, only this tells.
    target.raiseSafeVersion(safe_version);
    target.take(entries, random_, &dead);
    expectRecovered(target);
  }

  /// The same segment by segment, as a recovery does, in any order of them: what a tombstone says is forgotten when the
  /// segment that it names has been replayed.
  void recoverElsewhereBySegments() {
    std::vector<std::vector<std::byte>> segments;
    copySegments(segments);
    const uint64_t kind = random_.below(3);
    if (kind == 0) std::ranges::reverse(segments);
    if (kind == 1) shuffle(segments);
    std::vector<SegmentId> order;
    std::vector<std::vector<log::EntryView>> entries;
    ReplayTarget target;
    size_t most = 0;
    for (const auto& bytes : segments) {
      log::SegmentPreamble preamble;
      ASSERT_EQ(log::readPreamble(bytes, preamble), Status::Ok);
      order.push_back(preamble.header.segment);
      auto& contents = entries.emplace_back();
      for (const log::EntryView& entry : entriesOf(bytes)) {
        if (entry.type() == log::EntryType::SafeVersion) {
          target.raiseSafeVersion(entry.payloadAs<log::SafeVersionPayload>().version);
        }
        if (isContents(entry)) contents.push_back(entry);
        if (entry.type() == log::EntryType::Tombstone) ++most;
      }
      const uint64_t inside = random_.below(3);
      if (inside == 0) std::ranges::reverse(contents);
      if (inside == 1) shuffle(contents);
    }
    store::DeadVersions dead(order, random_.next());
    for (const auto& contents : entries) {
      target.take(contents, random_, &dead);
      if (::testing::Test::HasFatalFailure()) return;
      dead.segmentDone();
      ASSERT_LE(dead.size(), most) << "one note for each tombstone at most";
    }
    expectRecovered(target);
    if (cleaner_.isBusy()) ++recovered_in_passes_;
  }

  void expectRecovered(ReplayTarget& target) {
    expectSame(target);
    for (const auto& [key, version] : highest_) ASSERT_GT(target.safeVersion(), version) << key;
    for (uint64_t i = 0; i < kClients; ++i) {
      const Client& client = clients_[i];
      if (client.sequence <= client.acknowledged || client.last_answer.status == Status::TooLarge) continue;
      const store::ResultTable::Lookup known = target.findResult(client.last.identity);
      ASSERT_EQ(known.verdict, store::ResultTable::Verdict::Duplicate);
      ASSERT_EQ(known.result.status, client.last_answer.status);
      ASSERT_EQ(known.result.version, client.last_answer.version);
      ASSERT_EQ(known.result.value, client.last_answer.value);
    }
    std::vector<std::vector<std::byte>> own_segments;
    target.copySegments(own_segments);
    compare(replay(shuffledEntriesOf(own_segments)));
    ++recovered_;
  }

  uint64_t recovered() const { return recovered_; }
  uint64_t recoveredInPasses() const { return recovered_in_passes_; }
  uint64_t replayed() const { return replayed_; }
  uint64_t cleaned() { return log_.stats().segments_cleaned.load(); }
  uint64_t duplicates() const { return duplicates_; }
  uint64_t splits() const { return splits_; }

 private:
  static constexpr uint64_t kClients = 3;
  // A few keys change all the time; the others hold most of the bytes and keep the segments alive in which old versions
  // of the first lie: what a forgotten tombstone brings back.
  static constexpr uint64_t kHotKeys = 6;
  static constexpr uint64_t kKeys = 150;

  struct Client {
    uint64_t sequence = 0;
    uint64_t acknowledged = 0;
    store::Mutation last;
    std::string last_key;
    std::string last_value;
    store::Answer last_answer;
  };

  // Times of filling and times of change: the segments of the former stay, those of the latter are cleaned again and
  // again.
  uint64_t drawKey() {
    if (random_.below(150) == 0) filling_ = !filling_;
    const bool cold = random_.below(100) < (filling_ ? 90 : 1);
    return cold ? kHotKeys + random_.below(kKeys - kHotKeys) : random_.below(kHotKeys);
  }

  std::string drawValue(uint64_t key) {
    std::string value(key >= kHotKeys ? 500 + random_.below(5000) : random_.below(400), 'x');
    const uint64_t stamp = ++stamp_;
    value.append(reinterpret_cast<const char*>(&stamp), sizeof(stamp));
    return value;
  }

  void mutateOnce() {
    Client& client = clients_[random_.below(kClients)];
    const auto client_id = ClientId(static_cast<uint64_t>(&client - clients_) + 1);
    if (client.sequence > 0 && random_.below(6) == 0) return repeat(client);
    if (random_.below(2) == 0) client.acknowledged = client.sequence;

    const uint64_t key = drawKey();
    client.last_key = "key" + std::to_string(key);
    client.last_value = drawValue(key);
    const auto model = model_.find(client.last_key);
    const Version present = model == model_.end() ? 0 : model->second.version;
    store::Mutation& mutation = client.last;
    mutation = {};
    const uint64_t kind = key < kHotKeys ? random_.below(10) : 0;
    mutation.opcode = kind < 6 ? wire::Opcode::Write : kind < 9 ? wire::Opcode::Remove : wire::Opcode::Increment;
    mutation.identity = {client_id, Sequence(++client.sequence), Sequence(client.acknowledged)};
    mutation.table = kTable;
    mutation.delta = static_cast<int64_t>(random_.below(100)) - 50;
    mutation.condition = static_cast<wire::Condition>(random_.below(3) == 0 ? random_.below(5) : 0);
    mutation.condition_version = random_.below(2) == 0 ? present : random_.below(1000);
    client.last_answer = apply(client);
    updateModel(client, present);
  }

  store::Answer apply(Client& client) {
    store::Mutation& mutation = client.last;
    mutation.key = asBytes(client.last_key);
    mutation.hash = hashKey(kTable, mutation.key);
    const ByteSpan value = asBytes(client.last_value);
    mutation.value = mutation.opcode == wire::Opcode::Write ? std::span(&value, 1) : std::span<const ByteSpan>{};
    mutation.epoch = tablets_.find(kTable, mutation.hash)->epoch;
    for (int tries = 0;; ++tries) {
      const store::Answer answer = *store_.apply(mutation, store::ObjectStore::Locking::Wait);
      if (!isRetryable(answer.status)) return answer;
      EXPECT_LT(tries, 10'000) << "the log never has room again: " << name(answer.status);
      if (tries >= 10'000) return answer;
      turn();
    }
  }

  // Checks the answer to the client, and updates the model to what is there now.
  void updateModel(const Client& client, Version present) {
    const store::Mutation& mutation = client.last;
    const store::Answer& answer = client.last_answer;
    if (answer.status != Status::Ok) {
      if (answer.status == Status::TypeMismatch) {
        ASSERT_EQ(mutation.opcode, wire::Opcode::Increment);
        return;
      }
      ASSERT_NE(mutation.condition, wire::Condition::None) << name(answer.status);
      return;
    }
    if (mutation.opcode == wire::Opcode::Remove) {
      ASSERT_EQ(answer.version, present);
      model_.erase(client.last_key);
      highest_[client.last_key] = std::max(highest_[client.last_key], present);
      return;
    }
    ASSERT_GT(answer.version, highest_[client.last_key]) << "versions went back";
    highest_[client.last_key] = answer.version;
    std::string value = client.last_value;
    if (mutation.opcode == wire::Opcode::Increment) {
      value.assign(reinterpret_cast<const char*>(&answer.value), sizeof(answer.value));
    }
    model_[client.last_key] = {answer.version, value};
  }

  void repeat(Client& client) {
    const store::Answer again = apply(client);
    if (client.last_answer.status == Status::TooLarge) return;
    ++duplicates_;
    ASSERT_EQ(again.status, client.last_answer.status);
    ASSERT_EQ(again.version, client.last_answer.version);
    ASSERT_EQ(again.value, client.last_answer.value);
  }

  void turn() {
    if (cleaner_.isBusy() || cleaner_.isNeeded() || random_.below(100) == 0) {
      cleaner_.step(static_cast<uint32_t>(512 + random_.below(8192)));
    }
    rcu_.quiescent(reader_);
    rcu_.reclaim(1000);
    clock_.advance(1000);
    log_.reclaim(static_cast<uint64_t>(clock_.nowNs()));
    log_.maintain();
    store_.tombstones().reap(100);
  }

  void splitOnce() {
    const std::vector<store::Tablet> all = tablets_.list();
    if (all.size() >= 8) return;
    const store::Tablet& old = all[random_.below(all.size())];
    if (old.range.last - old.range.first < 1000) return;
    store::Tablet lower = old;
    store::Tablet upper = old;
    lower.id = TabletId(++next_tablet_);
    upper.id = TabletId(++next_tablet_);
    lower.epoch = upper.epoch = TabletEpoch(old.epoch.value + 1);
    const KeyHash middle = random_.between(old.range.first + 1, old.range.last);
    lower.range.last = middle - 1;
    upper.range.first = middle;
    ASSERT_EQ(tablets_.split(old.id, lower, upper), Status::Ok);
    ++splits_;
  }

  void check() {
    std::vector<std::vector<std::byte>> segments;
    const std::vector<log::EntryView> entries = shuffledEntries(segments);
    if (::testing::Test::HasFatalFailure()) return;
    compare(replay(entries));
    compareReads();
  }

  static std::vector<log::EntryView> entriesOf(const std::vector<std::byte>& bytes) {
    std::vector<log::EntryView> entries;
    log::SegmentReader reader(bytes);
    for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
      entries.insert(entries.end(), group.begin(), group.end());
    }
    EXPECT_EQ(reader.end(), log::WalkEnd::Clean) << log::name(reader.end());
    return entries;
  }
  template <typename T>
  void shuffle(std::vector<T>& all) {
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random_.below(i)]);
  }

  // Everything a recovery would find: the segments of the newest digest, entries in any order.
  std::vector<log::EntryView> shuffledEntries(std::vector<std::vector<std::byte>>& segments) {
    copySegments(segments);
    return shuffledEntriesOf(segments);
  }
  std::vector<log::EntryView> shuffledEntriesOf(const std::vector<std::vector<std::byte>>& segments) {
    std::vector<log::EntryView> entries;
    for (const auto& bytes : segments) {
      const std::vector<log::EntryView> more = entriesOf(bytes);
      entries.insert(entries.end(), more.begin(), more.end());
    }
    shuffle(entries);
    return entries;
  }

  static bool isContents(const log::EntryView& entry) {
    return entry.type() == log::EntryType::Object || entry.type() == log::EntryType::Tombstone ||
           entry.type() == log::EntryType::ResultRecord;
  }

  void expectSame(ReplayTarget& target) {
    ASSERT_EQ(target.objectCount(), model_.size());
    for (const auto& [key, object] : model_) {
      const store::Found found = target.find(key);
      ASSERT_TRUE(found.ref && found.entry.type() == log::EntryType::Object) << key << " is lost";
      ASSERT_EQ(found.entry.version(), object.version) << key;
      ASSERT_EQ(asText(found.entry.payload()), object.value) << key;
    }
  }

  std::map<std::string, ModelObject> replay(const std::vector<log::EntryView>& entries) {
    struct Newest {
      Version version = 0;
      bool is_tombstone = false;
      std::string value;
    };
    std::map<std::string, Newest> newest;
    for (const log::EntryView& entry : entries) {
      const bool is_tombstone = entry.type() == log::EntryType::Tombstone;
      if (!is_tombstone && entry.type() != log::EntryType::Object) continue;
      Newest& known = newest[std::string(asText(entry.key()))];
      const bool wins = entry.version() > known.version || (entry.version() == known.version && is_tombstone);
      if (wins) known = {entry.version(), is_tombstone, std::string(asText(entry.payload()))};
    }
    std::map<std::string, ModelObject> objects;
    for (const auto& [key, object] : newest) {
      if (!object.is_tombstone) objects[key] = {object.version, object.value};
    }
    return objects;
  }

  void compare(const std::map<std::string, ModelObject>& replayed) {
    ASSERT_EQ(replayed.size(), model_.size());
    for (const auto& [key, object] : model_) {
      const auto found = replayed.find(key);
      ASSERT_NE(found, replayed.end()) << key << " is lost";
      ASSERT_EQ(found->second.version, object.version) << key;
      ASSERT_EQ(found->second.value, object.value) << key;
    }
  }

  void compareReads() {
    for (uint64_t i = 0; i < kKeys; ++i) {
      const std::string key = "key" + std::to_string(i);
      const store::Found found = store_.lookup(kTable, hashKey(kTable, asBytes(key)), asBytes(key));
      const auto expected = model_.find(key);
      const bool is_object = found.ref && found.entry.type() == log::EntryType::Object;
      ASSERT_EQ(is_object, expected != model_.end()) << key;
      if (!is_object) continue;
      ASSERT_EQ(asText(found.entry.payload()), expected->second.value);
      ASSERT_EQ(found.entry.version(), expected->second.version);
    }
  }

  runtime::Random random_;
  log::Cleaner cleaner_;

  Client clients_[kClients];
  std::map<std::string, ModelObject> model_;
  std::map<std::string, Version> highest_;
  bool filling_ = true;
  uint64_t stamp_ = 0;
  uint64_t next_tablet_ = 1;
  uint64_t duplicates_ = 0;
  uint64_t splits_ = 0;
  uint64_t replayed_ = 0;
  uint64_t recovered_ = 0;
  uint64_t recovered_in_passes_ = 0;
};

// Parts of the seeds, so that several processors can have one each.
constexpr uint64_t kParts = 4;

uint64_t seedCount() {
  const char* wanted = std::getenv("RAMCORE_REPLAY_SEEDS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 200;
}

class ReplayModelTest : public testing::TestWithParam<uint64_t> {};

TEST_P(ReplayModelTest, ReplayingTheLogInAnyOrderGivesTheModel) {
  const uint64_t first = seedCount() * GetParam() / kParts + 1;
  const uint64_t last = seedCount() * (GetParam() + 1) / kParts;
  const uint64_t seeds = last - first + 1;
  uint64_t cleaned = 0;
  uint64_t duplicates = 0;
  uint64_t splits = 0;
  uint64_t replayed = 0;
  uint64_t recovered = 0;
  uint64_t recovered_in_passes = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ReplayModel model(seed);
    model.run(seed % 4 == 0 ? 3000 : 400);
    if (seed % 8 == 1) model.replayElsewhere();
    if (seed % 4 == 2 || seed % 8 == 0) model.recoverElsewhere();
    if (HasFailure()) return;
    replayed += model.replayed();
    recovered += model.recovered();
    recovered_in_passes += model.recoveredInPasses();
    cleaned += model.cleaned();
    duplicates += model.duplicates();
    splits += model.splits();
  }
  std::printf(
      "%llu seeds: %llu segments cleaned, %llu duplicates answered, %llu splits, %llu keys replayed elsewhere, %llu "
      "logs recovered, %llu of them in the middle of a pass\n",
      static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(cleaned),
      static_cast<unsigned long long>(duplicates), static_cast<unsigned long long>(splits),
      static_cast<unsigned long long>(replayed), static_cast<unsigned long long>(recovered),
      static_cast<unsigned long long>(recovered_in_passes));
  EXPECT_GT(cleaned, seeds / 10);
  EXPECT_GT(duplicates, seeds);
  EXPECT_GT(splits, seeds);
  EXPECT_GT(replayed, seeds);
  EXPECT_GE(recovered, seeds / 4);
  EXPECT_GT(recovered_in_passes, seeds / 10);
}
INSTANTIATE_TEST_SUITE_P(Parts, ReplayModelTest, testing::Range(uint64_t{0}, kParts));

}  // namespace
}  // namespace ramcore::master
