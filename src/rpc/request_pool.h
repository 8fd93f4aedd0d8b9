#pragma once

#include <vector>

#include "rpc/request.h"

namespace ramcore::rpc {

/// A request that is not answered yet. Shows what a process waits for.
struct RequestInService {
  wire::Opcode opcode{};
  transport::Role peer_role{};
  uint64_t peer_id = 0;
  int64_t age_ns = 0;  ///< since it was taken off its endpoint
};

/// The records of the requests in service, in the order in which they came, and records for the next requests. Inline,
/// because it runs for each request.
/// Thread: the dispatch's.
class RequestPool {
 public:
  /// @param dispatch  whose records they are; borrowed
  /// @param run  what new records run as jobs
  RequestPool(Dispatch& dispatch, runtime::Job::Run run) : dispatch_(dispatch), run_(run) {}
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;
  /// Called when count() is 0.
  ~RequestPool() {
    while (free_ != nullptr) {
      RequestRecord* record = free_;
      free_ = record->next_free;
      delete record;
    }
  }

  /// Records that were taken and not given back.
  size_t count() const { return count_; }
  /// A record for a request that comes now.
  RequestRecord* take() {
    ++count_;
    RequestRecord* record = free_;
    if (record != nullptr) {
      free_ = record->next_free;
    } else {
      record = new RequestRecord(run_);  // amortised: records are kept for the next requests
      record->dispatch = &dispatch_;
    }
    record->earlier = newest_;
    record->later = nullptr;
    (newest_ != nullptr ? newest_->later : oldest_) = record;
    newest_ = record;
    return record;
  }
  /// Takes back the record of a request that was answered, or that is not carried out.
  void giveBack(RequestRecord* record) {
    --count_;
    (record->earlier != nullptr ? record->earlier->later : oldest_) = record->later;
    (record->later != nullptr ? record->later->earlier : newest_) = record->earlier;
    record->message = {};
    if (count_ > kFreeMax) {
      delete record;
      return;
    }
    record->next_free = free_;
    free_ = record;
  }
  /// The requests in service, oldest first.
  std::vector<RequestInService> inService(int64_t now_ns) const {
    std::vector<RequestInService> requests;
    for (const RequestRecord* at = oldest_; at != nullptr; at = at->later) {
      requests.push_back({at->opcode, at->peer_role, at->peer_id, now_ns - at->arrival_ns});
    }
    return requests;
  }

 private:
  // Bounds the answers that are on their way and the memory of records kept for the next requests.
  static constexpr size_t kFreeMax = 4096;

  Dispatch& dispatch_;
  const runtime::Job::Run run_;
  RequestRecord* free_ = nullptr;
  size_t count_ = 0;
  RequestRecord* oldest_ = nullptr;
  RequestRecord* newest_ = nullptr;
};

}  // namespace ramcore::rpc
