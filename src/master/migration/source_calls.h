#pragma once

#include <atomic>
#include <vector>

#include "master/migration/pulled_slice.h"
#include "rpc/caller.h"
#include "runtime/task.h"
#include "store/crowded_hashes.h"
#include "wire/migration_messages.h"

namespace ramcore::master {

/// What the new owner of a tablet asks of the former one. One attempt each; what an answer says of itself is checked,
/// not its entries (PulledSlice::mayHold). Executor: the background one; slice() also another one.
class SourceCalls {
 public:
  /// Which tablet it is at the source.
  struct Tablet {
    TabletId id;
    TabletEpoch epoch;
    rpc::PeerAddress source;
  };
  /// How much is wanted, and how soon.
  struct Terms {
    uint32_t bytes;
    int64_t wait_ns;
    runtime::Priority priority;
  };
  /// Whether repeating a call that ended with this status could help, as long as the tablet can be given up.
  static bool mayPass(Status status) {
    return status != Status::BadRequest && status != Status::WrongServer && status != Status::StaleEpoch &&
           status != Status::Shutdown && status != Status::WrongServerId;
  }

  /// @param ended, interrupted  if one of them is true, calls end at once. They outlive this
  SourceCalls(rpc::Caller& caller, runtime::Executor& background, Tablet tablet, const std::atomic<bool>& ended,
              const std::atomic<bool>& interrupted)
      : caller_(caller),
        background_(background),
        tablet_(std::move(tablet)),
        ended_(ended),
        interrupted_(interrupted) {}

  struct Measured {
    wire::MeasureTablet::Response sizes{};
    store::CrowdedHashes::List crowded;
  };
  /// What some objects of the tablet take, or all that is not objects (MeasureTablet).
  /// @param range   of the tablet
  /// @param cursor  the first hash whose objects are asked about
  runtime::Task<Status> measure(wire::MeasureTablet::Part part, const HashRange& range, KeyHash cursor,
                                runtime::Priority priority, Measured& answer);
  /// Clients of the source with ids above `after`, ascending, at most ListClients::kClientsMax.
  runtime::Task<Status> clients(ClientId after, std::vector<ClientId>& clients);
  /// @param executor  of the caller
  /// @param opcode    Pull or PullResults
  /// @param range     a part of the tablet's, which contains the cursor
  runtime::Task<Status> slice(runtime::Executor& executor, wire::Opcode opcode, HashRange range, KeyHash cursor,
                              Terms terms, PulledSlice& slice);
  /// @param hashes  ascending; with Ok, cut to those that are answered, which are not none
  runtime::Task<Status> hashes(std::vector<KeyHash>& hashes, PulledSlice& slice);

  const Tablet& tablet() const { return tablet_; }

 private:
  static bool decodeCrowded(const PulledSlice& bytes, const HashRange& range, store::CrowdedHashes::List& crowded);
  static bool isGivenUp(void* calls) {
    const SourceCalls& own = *static_cast<SourceCalls*>(calls);
    return own.ended_ || own.interrupted_;
  }
  ServerId target() const { return ServerId(tablet_.source.id); }
  runtime::Task<rpc::CallResult> call(runtime::Executor& executor, transport::TxMessage message, int64_t wait_ns,
                                      runtime::Priority priority);

  rpc::Caller& caller_;
  runtime::Executor& background_;
  const Tablet tablet_;
  const std::atomic<bool>& ended_;
  const std::atomic<bool>& interrupted_;
};

}  // namespace ramcore::master
