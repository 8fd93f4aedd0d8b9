#include "tools/rcbench/load_loop.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "runtime/await.h"

namespace ramcore::rcbench {

using runtime::Task;

namespace {
constexpr uint32_t kLoadBatchMax = 64;
constexpr uint32_t kLoadBatchBytes = 256 * 1024;
constexpr uint32_t kConflictsMax = 100;
constexpr uint32_t kScanAnswersMax = 64;
constexpr uint32_t kObjectOverheadBytes = 32;
constexpr int64_t kInterruptedNs = 500 * runtime::kNanosPerMilli;  // for operations in flight
// This many operations have to end after the end of an open loop before their rate is used to judge whether the others
// can be done: servers that come back after a stall are slow at first.
constexpr uint64_t kJudgedMin = 1000;

ByteSpan bytesOf(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// The first status of an item that failed, else Ok; reads that found nothing are fine.
template <typename Item>
Status worstOf(const std::vector<Item>& items) {
  for (const Item& item : items) {
    if (item.status != Status::Ok && item.status != Status::NotFound) return item.status;
  }
  return Status::Ok;
}
}  // namespace

LoadLoop::LoadLoop(const Settings& settings, std::span<tools::ClusterSession* const> sessions,
                   const tools::ToolThread& thread, bool never_sleep, const volatile sig_atomic_t& interrupted)
    : settings_(settings),
      sessions_(sessions),
      loop_({sessions.begin(), sessions.end()}, thread, never_sleep),
      thread_(thread),
      interrupted_(interrupted),
      keys_(settings.key_bytes),
      random_(settings.seed),
      chooser_(settings.distribution(), settings.skew, settings.record_count),
      inserts_(settings.record_count),
      value_(std::max(settings.value_sizes.bytesMax(), settings.later_sizes.bytesMax()), 'v') {}

template <typename T>
T LoadLoop::await(tools::ClusterSession& session, Task<T> task) {
  if (!gave_up_) give_up_at_ns_ = runtime::kNever;
  while (!task.isDone()) {
    if (interrupted_ != 0) heedInterruption();
    session.advance();
  }
  return task.take();
}

void LoadLoop::heedInterruption() {
  if (gave_up_) return;
  const int64_t now_ns = thread_.clock.nowNs();
  if (give_up_at_ns_ == runtime::kNever) give_up_at_ns_ = now_ns + kInterruptedNs;
  if (interrupted_ < 2 && now_ns < give_up_at_ns_) return;
  gave_up_ = true;
  for (tools::ClusterSession* session : sessions_) session->giveUp();
}

void LoadLoop::close() {
  constexpr int64_t kCloseNs = runtime::kNanosPerSecond;
  if (!gave_up_) {
    std::vector<Task<void>> tasks;
    const int64_t deadline_ns = thread_.clock.nowNs() + kCloseNs;
    for (tools::ClusterSession* session : sessions_) tasks.push_back(session->client().close(deadline_ns));
    give_up_at_ns_ = runtime::kNever;
    while (drive(tasks)) {
    }
  }
  for (tools::ClusterSession* session : sessions_) session->close();
}

Status LoadLoop::openTable(uint32_t tablet_count) {
  tools::ClusterSession& session = *sessions_.front();
  Result<TableId> table = await(session, session.client().openTable(settings_.table, session.nowNs() + timeoutNs()));
  if (!table && table.error() == Status::NoSuchTable && settings_.load) {
    const Result<TableId> made =
        await(session, session.client().createTable(settings_.table, tablet_count, session.nowNs() + timeoutNs()));
    if (!made && made.error() != Status::TableExists) return made.error();
    table = await(session, session.client().openTable(settings_.table, session.nowNs() + timeoutNs()));
  }
  if (!table) return table.error();
  table_ = *table;
  return Status::Ok;
}

Status LoadLoop::dropTable() {
  tools::ClusterSession& session = *sessions_.front();
  return await(session, session.client().dropTable(settings_.table, session.nowNs() + timeoutNs()));
}

// ---- loading

Status LoadLoop::load(LoadResult& result) {
  const int64_t begin_ns = thread_.clock.nowNs();
  next_load_ = 0;
  load_status_ = Status::Ok;
  std::vector<Task<void>> tasks;
  constexpr uint32_t kLoadersPerSession = 4;
  uint64_t number = 0;
  for (tools::ClusterSession* session : sessions_) {
    for (uint32_t i = 0; i < kLoadersPerSession; ++i) tasks.push_back(loader(*session, number++));
  }
  give_up_at_ns_ = gave_up_ ? give_up_at_ns_ : runtime::kNever;
  while (drive(tasks)) {
  }
  // Calls that the interruption itself has ended are no failures of the cluster.
  if (gave_up_) load_status_ = Status::Ok;
  result.records = next_load_;
  result.seconds = static_cast<double>(thread_.clock.nowNs() - begin_ns) * 1e-9;
  return load_status_;
}

Task<void> LoadLoop::loader(tools::ClusterSession& session, uint64_t number) {
  const uint32_t batch = std::clamp<uint32_t>(
      kLoadBatchBytes / (settings_.key_bytes + settings_.value_sizes.bytesMax() + kObjectOverheadBytes), 1,
      kLoadBatchMax);
  runtime::Random random = random_.stream("load " + std::to_string(number));
  std::vector<std::string> keys(batch);
  std::vector<MutateItem> items;
  while (next_load_ < settings_.record_count && load_status_ == Status::Ok && interrupted_ == 0) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(batch, settings_.record_count - next_load_));
    items.assign(count, MutateItem{});
    for (uint32_t i = 0; i < count; ++i) {
      keys[i] = keys_.key(next_load_++);
      items[i].table = Table{table_.value};
      items[i].key = keys[i];
      items[i].value = std::string_view(value_).substr(0, settings_.value_sizes.draw(random));
    }
    co_await session.client().multiMutate(items, session.nowNs() + timeoutNs());
    const Status status = worstOf(items);
    if (status != Status::Ok) load_status_ = status;
  }
}

// ---- running

void LoadLoop::run(Recorder& recorder, const std::function<void()>& on_measure) {
  recorder_ = &recorder;
  on_measure_ = on_measure;
  has_measured_ = false;
  in_second_half_ = false;
  schedule_begin_ns_ = thread_.clock.nowNs();
  next_due_ = 0;
  measure_at_ns_ = schedule_begin_ns_ + static_cast<int64_t>(settings_.warmup_s * 1e9);
  end_ns_ = measure_at_ns_ + static_cast<int64_t>(settings_.duration_s * 1e9);
  operations_left_ = UINT64_MAX;
  late_count_ = 0;
  is_rest_hopeless_ = false;
  if (!gave_up_) give_up_at_ns_ = runtime::kNever;
  if (settings_.isOpenLoop() && settings_.operations_max > 0) {
    end_ns_ = std::min(end_ns_, dueNs(firstDueAt(measure_at_ns_) + settings_.operations_max));
  }
  std::vector<Task<void>> tasks;
  uint64_t number = 0;
  for (tools::ClusterSession* session : sessions_) {
    for (uint32_t i = 0; i < settings_.outstanding; ++i) tasks.push_back(worker(*session, number++));
  }
  while (drive(tasks)) follow(thread_.clock.nowNs());
  if (has_measured_) recorder.countNotBegun(notBegun());
  recorder.stop(thread_.clock.nowNs());
}

void LoadLoop::follow(int64_t now_ns) {
  if (!has_measured_ && now_ns >= measure_at_ns_ && !isOver(now_ns)) {
    has_measured_ = true;
    on_measure_();
    // The measurement of an open loop begins as scheduled, however late this is noticed.
    recorder_->start(settings_.isOpenLoop() ? measure_at_ns_ : thread_.clock.nowNs());
    if (!settings_.isOpenLoop() && settings_.operations_max > 0) operations_left_ = settings_.operations_max;
  }
  if (has_measured_ && !in_second_half_) in_second_half_ = isSecondHalf(now_ns);
  if (!isOver(now_ns)) return;
  end_ns_ = std::min(end_ns_, now_ns);
  // Operations that a closed loop has in flight at the end are not recorded: they would count without their share of
  // the time.
  if (!settings_.isOpenLoop()) recorder_->stop(now_ns);
}

bool LoadLoop::isSecondHalf(int64_t now_ns) const {
  if (operations_left_ != UINT64_MAX && operations_left_ <= settings_.operations_max / 2) return true;
  return now_ns >= measure_at_ns_ + (end_ns_ - measure_at_ns_) / 2;
}

bool LoadLoop::mayBegin(int64_t now_ns) const {
  if (!settings_.isOpenLoop()) return !isOver(now_ns);
  return interrupted_ == 0 && !is_rest_hopeless_ && now_ns < end_ns_ + restNs();
}

int64_t LoadLoop::restNs() const {
  constexpr int64_t kRestNsMin = 5 * runtime::kNanosPerSecond;
  return std::min(timeoutNs(), std::max(kRestNsMin, end_ns_ - measure_at_ns_));
}

int64_t LoadLoop::dueNs(uint64_t number) const {
  return schedule_begin_ns_ + static_cast<int64_t>(static_cast<double>(number) * 1e9 / settings_.rate);
}

uint64_t LoadLoop::firstDueAt(int64_t at_ns) const {
  if (at_ns <= schedule_begin_ns_) return 0;
  auto number = static_cast<uint64_t>(static_cast<double>(at_ns - schedule_begin_ns_) * settings_.rate / 1e9);
  while (dueNs(number) < at_ns) ++number;
  while (number > 0 && dueNs(number - 1) >= at_ns) --number;
  return number;
}

uint64_t LoadLoop::notBegun() const {
  if (!settings_.isOpenLoop()) return 0;
  // Whoever ends the run keeps what is due just then from beginning. Only what has waited for longer than it may take
  // was not begun in time.
  const uint64_t end = firstDueAt(interrupted_ != 0 ? end_ns_ - timeoutNs() : end_ns_);
  const uint64_t begin = std::max(next_due_, firstDueAt(measure_at_ns_));
  return end > begin ? end - begin : 0;
}

bool LoadLoop::drive(std::vector<Task<void>>& tasks) {
  if (std::all_of(tasks.begin(), tasks.end(), [](const Task<void>& task) { return task.isDone(); })) return false;
  if (interrupted_ != 0) heedInterruption();
  loop_.advance();
  return true;
}

Task<void> LoadLoop::worker(tools::ClusterSession& session, uint64_t number) {
  runtime::Random random = random_.stream("worker " + std::to_string(number));
  // An eager coroutine would start its first operation inside the loop that makes the workers.
  co_await runtime::resumeOn(session.dispatch());
  int64_t now_ns = session.nowNs();
  while (mayBegin(now_ns)) {
    int64_t intended_ns = now_ns;
    bool is_measured = true;
    int64_t deadline_ns = now_ns + timeoutNs();
    if (settings_.isOpenLoop()) {
      intended_ns = dueNs(next_due_);
      if (intended_ns >= end_ns_) co_return;
      ++next_due_;
      co_await waitUntilDue(session, intended_ns);
      now_ns = session.nowNs();
      follow(now_ns);
      if (intended_ns >= end_ns_) co_return;  // the end was brought forward
      deadline_ns = std::min(now_ns, end_ns_) + timeoutNs();
      is_measured = intended_ns >= measure_at_ns_;
      if (is_measured) recorder_->countDue(1);
    }
    const Kind kind = settings_.mix.draw(random);
    uint64_t objects = 1;
    const Status status = co_await operate(session, kind, random, objects, deadline_ns);
    now_ns = session.nowNs();
    if (is_measured) recorder_->record(kind, status, objects, intended_ns, now_ns);
    if (settings_.isOpenLoop() && now_ns >= end_ns_) judgeRest(now_ns);
    if (operations_left_ != UINT64_MAX && operations_left_ > 0 && recorder_->isRunning()) --operations_left_;
  }
}

void LoadLoop::judgeRest(int64_t now_ns) {
  if (late_count_++ == 0) late_since_ns_ = now_ns;
  if (is_rest_hopeless_ || late_count_ < kJudgedMin) return;
  const auto time_left_ns = static_cast<double>(end_ns_ + restNs() - now_ns);
  const double per_ns =
      static_cast<double>(late_count_) / static_cast<double>(std::max<int64_t>(1, now_ns - late_since_ns_));
  // Factor 3: the cluster may become faster meanwhile.
  is_rest_hopeless_ = static_cast<double>(notBegun()) > 3 * per_ns * time_left_ns;
}

Task<void> LoadLoop::waitUntilDue(tools::ClusterSession& session, int64_t due_ns) {
  // In pieces, so that an interruption does not wait for operations that are due much later.
  constexpr int64_t kPieceNs = 100 * runtime::kNanosPerMilli;
  int64_t now_ns = session.nowNs();
  while (now_ns < due_ns && due_ns < end_ns_) {
    co_await runtime::sleepUntil(session.dispatch(), std::min(due_ns, now_ns + kPieceNs));
    now_ns = session.nowNs();
    follow(now_ns);
  }
}

std::string LoadLoop::nextKey(runtime::Random& random) {
  return keys_.key(chooser_.next(inserts_.acknowledged(), random));
}

std::string_view LoadLoop::nextValue(runtime::Random& random) {
  const uint64_t draw = random.next();
  std::memcpy(value_.data(), &draw, std::min(sizeof draw, value_.size()));
  const ValueSizes& sizes = in_second_half_ ? settings_.later_sizes : settings_.value_sizes;
  return std::string_view(value_).substr(0, sizes.draw(random));
}

Task<Status> LoadLoop::operate(tools::ClusterSession& session, Kind kind, runtime::Random& random, uint64_t& objects,
                               int64_t deadline_ns) {
  client::ClusterClient& client = session.client();
  switch (kind) {
    case Kind::Read: {
      if (settings_.batch > 1) co_return co_await readBatch(client, random, deadline_ns, objects);
      const std::string key = nextKey(random);
      const client::PointResult result = co_await client.read(table_, bytesOf(key), deadline_ns);
      if (result.status != Status::NotFound) co_return result.status;
      recorder_->countMiss();
      objects = 0;
      co_return Status::Ok;
    }
    case Kind::Update: {
      const std::string key = nextKey(random);
      const std::string value(nextValue(random));
      const client::PointResult result =
          co_await client.write(table_, bytesOf(key), bytesOf(value), Condition(), deadline_ns);
      co_return result.status;
    }
    case Kind::Insert: {
      const uint64_t record = inserts_.begin();
      const std::string key = keys_.key(record);
      const std::string value(nextValue(random));
      const client::PointResult result =
          co_await client.write(table_, bytesOf(key), bytesOf(value), Condition(), deadline_ns);
      inserts_.finish(record);
      co_return result.status;
    }
    case Kind::Scan:
      co_return co_await scan(client, random, deadline_ns, objects);
    case Kind::ReadModifyWrite:
      co_return co_await readModifyWrite(client, random, deadline_ns);
  }
  co_return Status::Internal;
}

Task<Status> LoadLoop::readBatch(client::ClusterClient& client, runtime::Random& random, int64_t deadline_ns,
                                 uint64_t& objects) {
  std::vector<std::string> keys(settings_.batch);
  std::vector<ReadItem> items(settings_.batch);
  for (uint32_t i = 0; i < settings_.batch; ++i) {
    keys[i] = nextKey(random);
    items[i].table = Table{table_.value};
    items[i].key = keys[i];
  }
  co_await client.multiRead(items, deadline_ns);
  objects = 0;
  for (const ReadItem& item : items) {
    if (item.status == Status::Ok) ++objects;
    if (item.status == Status::NotFound) recorder_->countMiss();
  }
  co_return worstOf(items);
}

Task<Status> LoadLoop::scan(client::ClusterClient& client, runtime::Random& random, int64_t deadline_ns,
                            uint64_t& objects) {
  const uint64_t wanted = random.between(1, settings_.scan_objects);
  const std::string key = nextKey(random);
  client::ScanCursor cursor;
  cursor.table = table_;
  cursor.next = hashKey(table_, bytesOf(key));
  std::vector<Object> found;
  objects = 0;
  for (uint32_t answers = 0; objects < wanted && !cursor.is_end && answers < kScanAnswersMax; ++answers) {
    cursor.batch_bytes = static_cast<uint32_t>((wanted - objects) *
                                               (settings_.key_bytes + settings_.value_bytes + kObjectOverheadBytes));
    const Status status = co_await client.scanNext(cursor, found, deadline_ns);
    if (status != Status::Ok) co_return status;
    objects += found.size();
  }
  co_return Status::Ok;
}

Task<Status> LoadLoop::readModifyWrite(client::ClusterClient& client, runtime::Random& random, int64_t deadline_ns) {
  const std::string key = nextKey(random);
  for (uint32_t attempt = 0; attempt < kConflictsMax; ++attempt) {
    const client::PointResult seen = co_await client.read(table_, bytesOf(key), deadline_ns);
    if (seen.status != Status::Ok && seen.status != Status::NotFound) co_return seen.status;
    const std::string value(nextValue(random));
    const client::PointResult written = co_await client.write(table_, bytesOf(key), bytesOf(value),
                                                              Condition::versionEquals(seen.version), deadline_ns);
    if (written.status != Status::WrongVersion) co_return written.status;
    recorder_->countConflict();
  }
  co_return Status::WrongVersion;
}

}  // namespace ramcore::rcbench
