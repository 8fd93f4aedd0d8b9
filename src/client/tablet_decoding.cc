#include "client/tablet_decoding.h"

#include <algorithm>
#include <map>

namespace ramcore::client {
namespace {

namespace control = wire::control;

bool decodeServer(const control::Server& server, rpc::PeerAddress& out) {
  out.id = server.id();
  for (const std::string& text : server.locators()) {
    auto locator = transport::Locator::parse(text);
    if (!locator) return false;
    out.locators.push_back(std::move(locator).value());
  }
  return out.id != 0;
}

bool decodeTablet(const control::Tablet& tablet, TabletInfo& out) {
  out.id = TabletId(tablet.id());
  out.table = TableId(tablet.table());
  out.range = {.first = tablet.first_hash(), .last = tablet.last_hash()};
  out.epoch = TabletEpoch(tablet.epoch());
  out.owner = ServerId(tablet.owner());
  out.is_available = tablet.state() == control::TABLET_NORMAL || tablet.state() == control::TABLET_MOVING;
  out.is_moving = tablet.state() == control::TABLET_MOVING;
  return out.id && out.table && out.range.first <= out.range.last && (!out.is_available || out.owner);
}

bool sortAndCheckRanges(std::vector<TabletInfo>& tablets) {
  std::sort(tablets.begin(), tablets.end(),
            [](const TabletInfo& a, const TabletInfo& b) { return a.range.first < b.range.first; });
  for (size_t i = 1; i < tablets.size(); ++i) {
    if (tablets[i].range.first <= tablets[i - 1].range.last) return false;
  }
  return true;
}

}  // namespace

bool decodeTableMaps(const ControlTables& tables, const ControlTablets& tablets, const ControlServers& servers,
                     std::vector<TableMap>& out) {
  std::map<uint64_t, rpc::PeerAddress> owners;
  for (const control::Server& server : servers) {
    rpc::PeerAddress address;
    if (!decodeServer(server, address) || !owners.emplace(address.id, address).second) return false;
  }
  out.clear();
  std::map<uint32_t, size_t> places;
  for (const control::Table& table : tables) {
    if (table.id() == 0 || !places.emplace(table.id(), out.size()).second) return false;
    out.push_back({.table = TableId(table.id()),
                   .name = table.name(),
                   .tablets = {},
                   .owners = {},
                   .durability = durabilityOf(table)});
  }
  for (const control::Tablet& tablet : tablets) {
    TabletInfo info;
    const auto place = places.find(tablet.table());
    if (!decodeTablet(tablet, info) || place == places.end()) return false;
    TableMap& map = out[place->second];
    const auto owner = owners.find(info.owner.value);
    if (info.is_available && owner == owners.end()) return false;
    const bool is_new =
        owner != owners.end() && std::find(map.owners.begin(), map.owners.end(), owner->second) == map.owners.end();
    if (is_new) map.owners.push_back(owner->second);
    map.tablets.push_back(info);
  }
  return std::all_of(out.begin(), out.end(), [](TableMap& map) { return sortAndCheckRanges(map.tablets); });
}

}  // namespace ramcore::client
