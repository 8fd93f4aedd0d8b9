/// Requests of clients and of other servers, sent to a simulated server: each is answered, and the server goes on.
///
/// The first byte chooses the opcode, the second how much of the message the receiver gets in one piece; the rest
/// stands behind a good header. Each input is sent as it is, and again with lengths, table and epoch that fit, because
/// a fuzzer does not guess all of them at once.

#include <cstdlib>

#include "fuzz/fuzz_world.h"
#include "fuzz/planted.h"

namespace {

using namespace ramcore;
using sim::FuzzWorld;
using wire::Opcode;

constexpr Opcode kOpcodes[] = {Opcode::Read,        Opcode::Write,       Opcode::Remove,        Opcode::Increment,
                               Opcode::MultiRead,   Opcode::MultiMutate, Opcode::Scan,          Opcode::Pull,
                               Opcode::PullResults, Opcode::PullHashes,  Opcode::MeasureTablet, Opcode::ListClients};

template <typename Request>
bool load(const std::vector<std::byte>& bytes, Request& out) {
  return wire::decode(ByteSpan(bytes), out);
}

// Makes a point request fit its own length and the tablet that is there.
template <typename Request>
void repairPoint(std::vector<std::byte>& bytes) {
  Request request;
  if (!load(bytes, request)) return;
  const size_t body = bytes.size() - sizeof(request);
  request.table = TableId(FuzzWorld::kTable);
  request.epoch = TabletEpoch(1);
  if constexpr (requires { request.value_bytes; }) {
    request.key_bytes = static_cast<uint16_t>(std::min<size_t>(body, request.key_bytes % 64 + 1));
    request.value_bytes = static_cast<uint32_t>(body - request.key_bytes);
  } else {
    request.key_bytes = static_cast<uint16_t>(body);
  }
  if constexpr (requires { request.identity; }) request.identity.client = ClientId(1);
  storeAs(bytes.data(), request);
}

void repair(Opcode opcode, std::vector<std::byte>& bytes) {
  if (opcode == Opcode::Read) return repairPoint<wire::Read::Request>(bytes);
  if (opcode == Opcode::Write) return repairPoint<wire::Write::Request>(bytes);
  if (opcode == Opcode::Increment) return repairPoint<wire::Increment::Request>(bytes);
  if (opcode == Opcode::Scan) {
    wire::Scan::Request request;
    if (!load(bytes, request)) return;
    request.table = TableId(FuzzWorld::kTable);
    request.epoch = TabletEpoch(1);
    storeAs(bytes.data(), request);
    bytes.resize(sizeof(request));
  }
}

void send(sim::MasterWorld& world, Opcode opcode, const std::vector<std::byte>& bytes, uint8_t contiguous) {
  const bool is_pull = opcode == Opcode::Pull || opcode == Opcode::PullResults || opcode == Opcode::PullHashes ||
                       opcode == Opcode::MeasureTablet || opcode == Opcode::ListClients;
  // A header that is not in one piece ends the session, rightly.
  const size_t head_bytes = contiguous < sizeof(wire::RequestHeader) ? 0 : contiguous;
  const auto call = world.send(is_pull ? world.other_server : world.client, bytes, head_bytes);
  const Status outcome = call->outcome();
  if (name(outcome) == "Unknown" || outcome == Status::SessionLost || outcome == Status::Internal) std::abort();
  wire::Increment::Request increment;
  const bool incremented = opcode == Opcode::Increment && outcome == Status::Ok && load(bytes, increment);
  fuzz::crashIfPlanted(incremented && increment.delta == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static FuzzWorld fuzzed;
  if (size < 2) return 0;
  sim::MasterWorld& world = fuzzed.next();
  const Opcode opcode = kOpcodes[data[0] % std::size(kOpcodes)];
  std::vector<std::byte> bytes = fuzzed.withHeader(opcode, std::as_bytes(std::span(data + 2, size - 2)));
  send(world, opcode, bytes, data[1]);
  repair(opcode, bytes);
  send(world, opcode, bytes, data[1]);
  return 0;
}
