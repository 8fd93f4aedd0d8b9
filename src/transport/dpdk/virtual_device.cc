#include "transport/dpdk/virtual_device.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "base/bytes.h"

namespace ramcore::transport::dpdk {
namespace {

constexpr std::string_view kMemif = "net_memif";
constexpr std::string_view kPacket = "net_af_packet";
constexpr uint32_t kRoomUnsaid = 2048;
// Maximum length of what stands in front of each frame in the ring of a packet socket: the kernel's header and a VLAN
// tag.
constexpr uint32_t kRingHeaderBytes = 128;
// kFramesPerBlock frames whose length is a multiple of kRingStep are whole pages: a block of that ring.
constexpr uint32_t kRingStep = 1024;
constexpr uint32_t kFramesPerBlock = 4;

std::optional<std::string_view> argumentOf(const DeviceName& device, std::string_view key) {
  std::string_view rest = device.arguments;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    if (one.starts_with(key) && one.substr(key.size()).starts_with('=')) return one.substr(key.size() + 1);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return std::nullopt;
}

}  // namespace

bool understatesMtu(const DeviceName& device) {
  const std::string driver = device.driver();
  return driver == kMemif || driver == kPacket;
}

bool looksForOther(const DeviceName& device) {
  // ("master" is an older name of the driver for the server.)
  const std::string_view role = argumentOf(device, "role").value_or("client");
  return device.driver() == kMemif && role != "server" && role != "master";
}

uint32_t roomFor(uint32_t frame_bytes) {
  return std::max<uint32_t>(kRoomUnsaid, alignUp(frame_bytes + kRingHeaderBytes, kRingStep));
}

Outcome<DeviceName> withRoomFor(const DeviceName& device, uint32_t frame_bytes) {
  const bool is_packet = device.driver() == kPacket;
  if (!is_packet && device.driver() != kMemif) return device;
  const std::string_view key = is_packet ? "framesz" : "bsize";
  const uint32_t room = is_packet ? roomFor(frame_bytes) : std::max(kRoomUnsaid, std::bit_ceil(frame_bytes));
  if (const auto said = argumentOf(device, key)) {
    uint32_t given = 0;
    const auto [end, error] = std::from_chars(said->data(), said->data() + said->size(), given);
    // The driver refuses by itself a value that is no number.
    if (error != std::errc() || given >= frame_bytes + (is_packet ? kRingHeaderBytes : 0)) return device;
    return Failure{Status::BadConfig, "'" + device.name + "," + device.arguments + "': " + std::string(key) + "=" +
                                          std::to_string(given) + " has no room for frames of " +
                                          std::to_string(frame_bytes) + " bytes; leave it out, or say " +
                                          std::string(key) + "=" + std::to_string(room)};
  }
  if (room == kRoomUnsaid) return device;
  DeviceName roomy = device;
  roomy.arguments += (roomy.arguments.empty() ? "" : ",") + std::string(key) + "=" + std::to_string(room);
  if (is_packet && !argumentOf(device, "blocksz")) {
    roomy.arguments += ",blocksz=" + std::to_string(kFramesPerBlock * room);
  }
  return roomy;
}

std::optional<uint32_t> mtuOfInterface(const DeviceName& device) {
  const auto interface = argumentOf(device, "iface");
  ifreq request{};
  if (device.driver() != kPacket || !interface || interface->size() >= sizeof(request.ifr_name)) return std::nullopt;
  std::copy(interface->begin(), interface->end(), request.ifr_name);
  const int any = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) return std::nullopt;
  const bool is_known = ::ioctl(any, SIOCGIFMTU, &request) == 0;
  ::close(any);
  if (!is_known) return std::nullopt;
  return static_cast<uint32_t>(request.ifr_mtu);
}

}  // namespace ramcore::transport::dpdk
