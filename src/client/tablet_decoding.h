#pragma once

// Checked decoding of the coordinator's lists. Included by .cc files only: brings in generated code.
#include "client/tablet_map.h"
#include "wire/control.h"

namespace ramcore::client {

using ControlTables = google::protobuf::RepeatedPtrField<wire::control::Table>;
using ControlTablets = google::protobuf::RepeatedPtrField<wire::control::Tablet>;
using ControlServers = google::protobuf::RepeatedPtrField<wire::control::Server>;

/// A level that is not Buffered counts as Sync: it promises more than Buffered.
inline Durability durabilityOf(const wire::control::Table& table) {
  return table.durability() == wire::control::DURABILITY_BUFFERED ? Durability::Buffered : Durability::Sync;
}

/// Makes one map per table of `tables`, in their order. False if the lists make no sense: ids of 0, names or tables
/// twice, ranges that are backwards or overlap, tablets of no table, owners that are no server, locators that cannot be
/// parsed.
[[nodiscard]] bool decodeTableMaps(const ControlTables& tables, const ControlTablets& tablets,
                                   const ControlServers& servers, std::vector<TableMap>& out);

}  // namespace ramcore::client
