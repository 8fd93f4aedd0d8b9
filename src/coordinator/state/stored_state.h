#pragma once

// Keys and values of the coordinator's store. Values are the messages of src/wire/state.proto; numbers in keys are
// hexadecimal with leading zeros, so that a listing is in the order of ids.
#include <string>
#include <string_view>

#include "coordinator/state/records.h"

namespace ramcore::coordinator {

inline constexpr std::string_view kConfigKey = "config";
inline constexpr std::string_view kHistoryKey = "history";
inline constexpr std::string_view kServerPrefix = "server/";
inline constexpr std::string_view kTablePrefix = "table/";
inline constexpr std::string_view kTabletPrefix = "tablet/";
inline constexpr std::string_view kClientConfigKey = "clients";
inline constexpr std::string_view kClientPrefix = "client/";
inline constexpr std::string_view kMigrationPrefix = "migration/";
inline constexpr std::string_view kSplitPrefix = "split/";

std::string keyOf(ServerId id);
std::string keyOf(TableId id);
std::string keyOf(TabletId id);
std::string keyOf(ClientId id);
std::string keyOf(MigrationId id);
std::string keyOfSplit(TabletId tablet);

/// The text about a record that a decode() below refuses, or that stands under another key than its own.
inline constexpr std::string_view kNonsense = "makes no sense";

struct StoredClient {
  ClientId id;
  uint64_t nonce = 0;
};

/// What a coordinator last ran with.
struct StoredConfig {
  int64_t server_lease_ns = 0;
  uint32_t starts = 0;  ///< how often one began on this state; wraps
};

std::string encodeConfig(const StoredConfig& config);
std::string encodeClientConfig(int64_t lease_ns);
std::string encodeAllocator(uint64_t reserved_until);
std::string encode(const Server& server);
std::string encode(const Table& table);
std::string encode(const Tablet& tablet);
std::string encode(const StoredClient& client);
std::string encode(const Migration& migration);
std::string encode(const Split& split);

// False if the bytes are damaged or make no sense by themselves. References to other records are checked by the code
// that loads them.
[[nodiscard]] bool decodeConfig(std::string_view bytes, StoredConfig& config);
[[nodiscard]] bool decodeClientConfig(std::string_view bytes, int64_t& lease_ns);
[[nodiscard]] bool decodeAllocator(std::string_view bytes, uint64_t& reserved_until);
[[nodiscard]] bool decode(std::string_view bytes, Server& server);
[[nodiscard]] bool decode(std::string_view bytes, Table& table);
[[nodiscard]] bool decode(std::string_view bytes, Tablet& tablet);
[[nodiscard]] bool decode(std::string_view bytes, StoredClient& client);
[[nodiscard]] bool decode(std::string_view bytes, Migration& migration);
[[nodiscard]] bool decode(std::string_view bytes, Split& split);

}  // namespace ramcore::coordinator
