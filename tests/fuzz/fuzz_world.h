#pragma once

#include <memory>
#include <vector>

#include "sim/cluster/master_world.h"

namespace ramcore::sim {

/// A simulated server that inputs are sent to. The same one for some inputs, because starting one takes a millisecond;
/// an input alone always meets a fresh one.
class FuzzWorld {
 public:
  static constexpr uint32_t kTable = 3;

  MasterWorld& next() {
    constexpr int kInputsPerWorld = 200;
    if (inputs_++ % kInputsPerWorld == 0) restart();
    return *world_;
  }
  /// Bytes of a request with a good header and `body` behind it.
  std::vector<std::byte> withHeader(wire::Opcode opcode, ByteSpan body) const {
    std::vector<std::byte> bytes(sizeof(wire::RequestHeader) + body.size());
    storeAs(bytes.data(), wire::RequestHeader{.opcode = opcode, .target = ServerId(world_->addresses[0].id)});
    if (!body.empty()) std::memcpy(bytes.data() + sizeof(wire::RequestHeader), body.data(), body.size());
    return bytes;
  }
  ~FuzzWorld() { end(); }

 private:
  void restart() {
    end();
    world_ = std::make_unique<MasterWorld>(1);
    world_->addServer();
    wire::control::TakeTabletRequest ask;
    ask.mutable_tablet()->set_id(1);
    ask.mutable_tablet()->set_table(kTable);
    ask.mutable_tablet()->set_last_hash(~uint64_t{0});
    ask.mutable_tablet()->set_epoch(1);
    ask.set_created_empty(true);
    RC_CHECK(world_->command(wire::Opcode::TakeTablet, ask)->outcome() == Status::Ok);
  }
  // Gives pulls that the inputs have started the time to end.
  void end() {
    if (world_) world_->runFor(30 * runtime::kNanosPerSecond);
    world_.reset();
  }

  std::unique_ptr<MasterWorld> world_;
  int inputs_ = 0;
};

}  // namespace ramcore::sim
