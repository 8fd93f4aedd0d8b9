/// What the coordinator may tell a master, garbled: Protobuf messages behind a good header, in any order and number.
/// The server answers each one and goes on; then nothing is left behind that could not be stopped.
///
/// An input is a list of commands: opcode, length, bytes.

#include <cstdlib>

#include "fuzz/fuzz_world.h"
#include "fuzz/planted.h"

namespace {

using namespace ramcore;
using wire::Opcode;

constexpr Opcode kOpcodes[] = {Opcode::TakeTablet,     Opcode::DropTablet,  Opcode::SplitTablet,  Opcode::FreezeTablet,
                               Opcode::UnfreezeTablet, Opcode::PullTablet,  Opcode::PullProgress, Opcode::ServerState,
                               Opcode::RecoverTablets, Opcode::AdoptTablet, Opcode::LendTablet,   Opcode::TabletLoads};

void run(sim::MasterWorld& world, Opcode opcode, const std::vector<std::byte>& bytes) {
  const auto call = world.send(world.coordinator, bytes, 0);
  const Status outcome = call->outcome();
  if (name(outcome) == "Unknown" || outcome == Status::SessionLost || outcome == Status::Internal) std::abort();
  fuzz::crashIfPlanted(opcode == Opcode::TakeTablet && outcome == Status::Ok);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static sim::FuzzWorld fuzzed;
  sim::MasterWorld& world = fuzzed.next();
  constexpr int kCommandsMax = 8;
  ByteSpan rest = std::as_bytes(std::span(data, size));
  for (int i = 0; i < kCommandsMax && rest.size() >= 2; ++i) {
    const Opcode opcode = kOpcodes[static_cast<uint8_t>(rest[0]) % std::size(kOpcodes)];
    const size_t bytes = std::min<size_t>(static_cast<uint8_t>(rest[1]), rest.size() - 2);
    run(world, opcode, fuzzed.withHeader(opcode, rest.subspan(2, bytes)));
    rest = rest.subspan(2 + bytes);
  }
  return 0;
}
