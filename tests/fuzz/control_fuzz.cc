/// Control-plane messages as bytes: parsed as each kind of message, and the coordinator's lists through the client
/// library's checks. What parses stores to bytes that parse to the same.
///
/// The first byte chooses the message. Built with -DRAMCORE_FUZZ_PLANTED it aborts on a table whose id is 7, which a
/// working fuzzer finds within seconds.

#include <cstdlib>
#include <string>
#include <vector>

#include "client/tablet_decoding.h"
#include "wire/control.h"
#include "wire/state.pb.h"

namespace {

using namespace ramcore;
namespace control = wire::control;

template <typename Message>
bool parse(ByteSpan bytes) {
  Message message;
  if (!wire::parseControl(bytes, message)) return false;
  std::vector<std::byte> stored(wire::controlBytes(message));
  wire::storeControl(message, stored.data());
  Message again;
  if (!wire::parseControl(stored, again) || again.SerializeAsString() != message.SerializeAsString()) std::abort();
  return true;
}

using Parser = bool (*)(ByteSpan);
constexpr Parser kParsers[] = {
    parse<control::EnlistRequest>,
    parse<control::EnlistResponse>,
    parse<control::CheckClientRequest>,
    parse<control::CheckClientResponse>,
    parse<control::CreateTableRequest>,
    parse<control::MoveTabletRequest>,
    parse<control::SplitTableRequest>,
    parse<control::TakeTabletRequest>,
    parse<control::SplitTabletRequest>,
    parse<control::PullTabletRequest>,
    parse<control::PullProgressResponse>,
    parse<control::ServerStateResponse>,
    parse<control::ClusterStatusResponse>,
    parse<wire::state::Server>,
    parse<wire::state::Table>,
    parse<wire::state::Tablet>,
    parse<wire::state::Migration>,
    parse<wire::state::Split>,
};

void decodeLists(ByteSpan bytes) {
  control::GetTabletsResponse lists;
  if (!wire::parseControl(bytes, lists)) return;
#if defined(RAMCORE_FUZZ_PLANTED)
  for (const control::Table& table : lists.tables()) {
    if (table.id() == 7) std::abort();
  }
#endif
  std::vector<client::TableMap> maps;
  if (client::decodeTableMaps(lists.tables(), lists.tablets(), lists.servers(), maps) &&
      maps.size() != static_cast<size_t>(lists.tables_size())) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1,
                                     reinterpret_cast<const std::byte*>(data) + size);
  const size_t choice = data[0] % (std::size(kParsers) + 1);
  if (choice == 0) {
    decodeLists(bytes);
  } else {
    kParsers[choice - 1](bytes);
  }
  return 0;
}
