#include "transport/verbs/gid_choice.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace ramcore::transport::verbs {
namespace {

bool carriesIpv4(const ibv_gid& gid) {
  constexpr std::array<uint8_t, 12> kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kPrefix.begin(), kPrefix.end(), gid.raw);
}

// fe80::/10
bool isOfTheLink(const ibv_gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

// The higher, the better.
int rankOf(const ibv_gid_entry& entry, const GidWanted& wanted) {
  int rank = 0;
  if (wanted.host && isSameGid(entry.gid, *wanted.host)) rank += 8;
  if (entry.gid_type == IBV_GID_TYPE_ROCE_V2) rank += 4;
  if (carriesIpv4(entry.gid)) rank += 2;
  if (!carriesIpv4(entry.gid) && !isOfTheLink(entry.gid)) rank += 1;
  return rank;
}

}  // namespace

std::optional<ibv_gid> gidOf(const std::string& host) {
  ibv_gid gid{};
  if (inet_pton(AF_INET6, host.c_str(), gid.raw) == 1) return gid;
  if (inet_pton(AF_INET, host.c_str(), gid.raw + 12) != 1) return std::nullopt;
  gid.raw[10] = gid.raw[11] = 0xff;
  return gid;
}

bool isSameGid(const ibv_gid& a, const ibv_gid& b) { return std::memcmp(a.raw, b.raw, sizeof(a.raw)) == 0; }

const ibv_gid_entry* chooseGid(std::span<const ibv_gid_entry> entries, const GidWanted& wanted) {
  const ibv_gid_entry* best = nullptr;
  for (const ibv_gid_entry& entry : entries) {
    if (entry.port_num != wanted.port || entry.gid_index > UINT8_MAX) continue;
    if (wanted.index >= 0 && entry.gid_index != static_cast<uint32_t>(wanted.index)) continue;
    if (best == nullptr || (wanted.is_ethernet && rankOf(entry, wanted) > rankOf(*best, wanted))) best = &entry;
  }
  return best;
}

}  // namespace ramcore::transport::verbs
