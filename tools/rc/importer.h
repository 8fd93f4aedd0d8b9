#pragma once

#include <deque>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ramcore/client.h"

namespace ramcore::rc {

/// Writes objects in batches, many of which are on their way at the same time. Objects of one key take effect in the
/// order in which they are added: of several in one batch only the last is sent, and a batch that brings a key again
/// waits for the one on its way that has it.
class Importer {
 public:
  struct Settings {
    Table table;
    size_t batch_objects_max = 256;
    size_t batches_max = 16;  ///< on their way at the same time
  };
  /// @param client  outlives the importer, which finish() ends.
  Importer(Client& client, const Settings& settings) : client_(client), settings_(settings) {}

  /// @param line  where the object comes from, for firstFailure().
  void add(Object object, uint64_t line);
  /// Waits for all.
  void finish();

  /// Lines whose object is written, or gave way to a later one that is.
  uint64_t written() const { return written_; }
  uint64_t failed() const { return failed_; }
  struct Wrong {
    Status status = Status::Ok;
    uint64_t line = 0;
  };
  /// Of the lines that failed so far, the one that was added first. After a failure nothing more is sent.
  const Wrong& firstFailure() const { return first_failure_; }

 private:
  /// Objects that are written together. Does not move: items and the map point to the keys in them.
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
