/// What a coordinator may find in its store when it starts: records of every kind with any bytes. Either it does not
/// start, or it carries on: clients understand its map, it answers who wants to create, split and drop tables, and the
/// next coordinator can read what it has left.
///
/// An input is a list of records: kind, number, length, bytes. The keys are made of kind and number, because a fuzzer
/// guesses none; allocators have given away the numbers below 200 unless the input says otherwise.

#include <cstdlib>

#include "coordinator/state/stored_state.h"
#include "fuzz/coordinator_world.h"
#include "fuzz/planted.h"

namespace {

using namespace ramcore;
namespace control = wire::control;
using wire::Opcode;

constexpr std::string_view kAllocators[] = {"id/server", "id/client", "id/table", "id/tablet", "id/migration"};

std::string keyOf(uint8_t kind, uint8_t number) {
  switch (kind % 8) {
    case 0:
      return coordinator::keyOf(ServerId(number));
    case 1:
      return coordinator::keyOf(TableId(number));
    case 2:
      return coordinator::keyOf(TabletId(number));
    case 3:
      return coordinator::keyOf(ClientId(number));
    case 4:
      return coordinator::keyOf(coordinator::MigrationId(number));
    case 5:
      return coordinator::keyOfSplit(TabletId(number));
    case 6:
      return std::string(kAllocators[number % std::size(kAllocators)]);
    default:
      return std::string(coordinator::kConfigKey);
  }
}

class StoredWorld : private fuzz::CoordinatorWorld {
 public:
  explicit StoredWorld(std::string_view input) {
    for (const std::string_view key : kAllocators) {
      cluster_.disk.put(std::string(key), coordinator::encodeAllocator(200));
    }
    while (input.size() >= 3) {
      const size_t bytes = std::min<size_t>(static_cast<uint8_t>(input[2]), input.size() - 3);
      cluster_.disk.put(keyOf(static_cast<uint8_t>(input[0]), static_cast<uint8_t>(input[1])),
                        std::string(input.substr(3, bytes)));
      input.remove_prefix(3 + bytes);
    }
  }

  void run() {
    if (startCoordinator() != Status::Ok) return;
    const std::vector<client::TableMap> tables = readMap();
    for (const client::TableMap& table : tables) fuzz::crashIfPlanted(table.name != "a table with a name that is long");
    askFor<control::CreateTableRequest>(Opcode::CreateTable, [](auto& ask) {
      ask.set_name("new");
      ask.set_nonce(7);
    });
    if (!tables.empty()) {
      askFor<control::SplitTableRequest>(Opcode::SplitTable, [&](auto& ask) {
        ask.set_table(tables.front().table.value);
        ask.set_at_hash(uint64_t{1} << 63);
      });
      askFor<control::DropTableRequest>(Opcode::DropTable,
                                        [&](auto& ask) { ask.set_table(tables.back().table.value); });
    }
    // No stored server answers: verdicts follow, and what waited for them.
    runFor(20 * runtime::kNanosPerSecond);
    readMap();
    RC_CHECK(startCoordinator() == Status::Ok);
    readMap();
  }

 private:
  template <typename Message, typename Fill>
  void askFor(Opcode opcode, Fill fill) {
    Message message;
    fill(message);
    const Status outcome = send(*admin_, opcode, message.SerializeAsString())->outcome();
    RC_CHECK(name(outcome) != "Unknown" && outcome != Status::Internal && outcome != Status::Corrupt);
  }

  std::vector<client::TableMap> readMap() {
    // The session with the coordinator before this one ends under the first question to its successor, which says
    // nothing until half of the stored servers have spoken, or a lease has passed.
    std::unique_ptr<sim::NotedCall> call;
    for (int round = 0; round < 60; ++round) {
      call = send(*admin_, Opcode::GetTablets, {});
      if (call->outcome() == Status::Ok) break;
      RC_CHECK(call->outcome() == Status::RetryLater || (round == 0 && call->outcome() == Status::SessionLost));
      runFor(runtime::kNanosPerSecond);
    }
    return tablesOf(*call);
  }

  const std::unique_ptr<sim::RpcProcess> admin_ = makeProcess("admin", transport::Role::Admin);
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kBytesMax = 2'000;
  StoredWorld(std::string_view(reinterpret_cast<const char*>(data), std::min(size, kBytesMax))).run();
  return 0;
}
