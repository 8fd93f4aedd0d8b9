#pragma once

#include "client/cluster_client.h"

namespace ramcore::client {

/// One multi-operation of a ClusterClient: in each round the parts that are left are grouped by the server that owns
/// them and sent, all groups at once; parts without a final answer go into the next round.
///
/// Item is ReadItem or MutateItem. Lives in the frame of the coroutine that runs it.
template <typename Item>
class MultiRun {
 public:
  MultiRun(ClusterClient& client, std::span<Item> items, int64_t deadline_ns);
  ~MultiRun();
  MultiRun(const MultiRun&) = delete;
  MultiRun& operator=(const MultiRun&) = delete;

  /// Runs the operation. Afterwards every item has its outcome.
  runtime::Task<void> run();
  /// Used instead of run(): sends nothing, and gives `status` to every item that run() would send.
  void refuse(Status status) {
    begin();
    finishAll(status);
  }

 private:
  static constexpr bool kIsMutation = std::is_same_v<Item, MutateItem>;

  void begin();
  runtime::Task<Status> prepareIdentity();
  runtime::Task<void> placeParts();
  bool placePart(MultiPart& part);
  void sendAll();
  uint32_t sendNext(uint32_t first);
  static bool isHopeless(void* multi_call);
  void collect(MultiCall& call);
  /// Asks the coordinator, in the background, about the tables of those parts that are to be sent again to the servers
  /// that refused them.
  void inquire();
  /// Finishes the parts that have their outcome, and keeps the others for the next round.
  /// @return how many parts it finished
  size_t settle();
  void finishPart(MultiPart& part);
  void finishAll(Status last);

  ClusterClient& client_;
  const std::span<Item> items_;
  const int64_t deadline_ns_;
  static constexpr uint32_t kNowhere = UINT32_MAX;  // owner of a part: not known

  std::unique_ptr<MultiScratch> scratch_;
  uint32_t generation_ = 0;
  size_t call_count_ = 0;
  uint32_t retry_after_us_ = 0;
  int64_t since_ns_ = 0;
};

extern template class MultiRun<ReadItem>;
extern template class MultiRun<MutateItem>;

}  // namespace ramcore::client
