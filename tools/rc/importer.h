#pragma once

#include <deque>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ramcore/client.h"

namespace ramcore::rc {

/// Writes objects in batches, many of which are in flight at the same time. Objects with the same key take effect in
/// the order in which they are added: if a batch has several of them, only the last is sent, and a batch with a key
/// that a batch in flight has waits for that batch.
class Importer {
 public:
  struct Settings {
    Table table;
    size_t batch_objects_max = 256;
    size_t batches_max = 16;  ///< in flight at the same time
  };
  /// @param client  outlives the importer, which finish() ends.
  Importer(Client& client, const Settings& settings) : client_(client), settings_(settings) {}

  /// @param line  where the object comes from, for firstFailure().
  void add(Object object, uint64_t line);
  /// Waits for all.
  void finish();

  /// Lines whose object is written, or was replaced in its batch by a later object that is written.
  uint64_t written() const { return written_; }
  uint64_t failed() const { return failed_; }
  struct Wrong {
    Status status = Status::Ok;
    uint64_t line = 0;
  };
  /// The line that was added first among those that failed so far. After a failure nothing more is sent.
  const Wrong& firstFailure() const { return first_failure_; }

 private:
  /// Objects that are written together. A batch does not move in memory: its items and its map point to the keys in it.
  struct Batch {
    struct Added {
      Object object;
      uint64_t line = 0;   // the last one with that key
      uint64_t lines = 1;  // with that key
    };
    std::deque<Added> added;
    std::unordered_map<std::string_view, Added*> by_key;
    std::vector<MutateItem> items;
    Future<size_t> result;
    size_t bytes = 0;
    uint64_t number = 0;
  };

  void send();
  void collect();
  void fail(Status status, uint64_t line, uint64_t lines);

  Client& client_;
  const Settings settings_;
  std::unique_ptr<Batch> batch_ = std::make_unique<Batch>();
  std::deque<std::unique_ptr<Batch>> running_;                         // in the order in which they were sent
  std::unordered_map<std::string_view, uint64_t> numbers_of_running_;  // of the batch that has a key
  uint64_t next_number_ = 0;
  uint64_t written_ = 0;
  uint64_t failed_ = 0;
  Wrong first_failure_;
};

}  // namespace ramcore::rc
