#pragma once

// Our records as messages. Included by .cc files only, because it brings in generated code.
#include "coordinator/state/records.h"
#include "wire/control.h"

namespace ramcore::coordinator {

inline wire::control::Durability durabilityOf(Durability durability) {
  return durability == Durability::Sync ? wire::control::DURABILITY_SYNC : wire::control::DURABILITY_BUFFERED;
}

inline void fillTable(const Table& table, wire::control::Table& out) {
  out.set_id(table.id.value);
  out.set_name(table.name);
  out.set_durability(durabilityOf(table.durability));
}

/// @param available  false: the owner is dead, and the contents cannot be reached until they are recovered
inline void fillTablet(const Tablet& tablet, bool available, wire::control::Tablet& out) {
  out.set_id(tablet.id.value);
  out.set_table(tablet.table.value);
  out.set_first_hash(tablet.range.first);
  out.set_last_hash(tablet.range.last);
  out.set_epoch(tablet.epoch.value);
  out.set_owner(tablet.owner.value);
  // A tablet that is being split goes on as usual; to clients it is a normal one until the split is stored.
  out.set_state(!available                            ? wire::control::TABLET_UNAVAILABLE
                : tablet.state == TabletState::Moving ? wire::control::TABLET_MOVING
                                                      : wire::control::TABLET_NORMAL);
  out.set_durability(durabilityOf(tablet.durability));
  for (const LogRef& log : tablet.logs) {
    wire::control::LogRef& to = *out.add_logs();
    to.set_server(log.server.value);
    to.set_first_segment(log.first_segment.value);
  }
}

inline void fillServer(const Server& server, wire::control::Server& out) {
  out.set_id(server.id.value);
  for (const std::string& locator : server.locators) out.add_locators(locator);
  out.set_name(server.name);
  out.set_memory_bytes(server.memory_bytes);
  out.set_alive(server.alive);
}

inline void fillMember(const Server& server, wire::control::Member& out) {
  out.set_id(server.id.value);
  for (const std::string& locator : server.locators) out.add_locators(locator);
  out.set_keeps_replicas(server.keeps_replicas);
  out.set_failure_domain(server.failure_domain);
}

inline LogRef logOf(const wire::control::LogRef& message) {
  return {ServerId(message.server()), SegmentId(message.first_segment())};
}

}  // namespace ramcore::coordinator
