#include "transport/verbs/verbs_transport.h"

#include <algorithm>

#include "transport/verbs/device.h"
#include "transport/verbs/regions.h"
#include "transport/verbs/verbs_endpoint.h"
#include "wire/frame.h"

namespace ramcore::transport::verbs {
namespace {

Limits limitsOf(const VerbsOptions& options, const Device& device) {
  Limits limits;
  limits.name = "verbs";
  limits.message_bytes_max = wire::kMessageBytesMax;
  limits.gather_count_max = std::min(device.limits().gather_entries, options.entries_max) - 1;
  limits.inline_bytes_max = options.inline_bytes;
  limits.burst_messages_max = 64;
  limits.slots_per_session = options.slots_per_session;
  limits.zero_copy_bytes_min = options.copy_below_bytes;
  limits.zero_copy = true;
  limits.one_sided = true;
  limits.needs_registration = true;
  return limits;
}

// The options with what was measured of this device.
VerbsOptions calibrated(VerbsOptions options, const Device& device, Trace& trace) {
  if (!options.calibration.knows("verbs", device.name())) return options;
  const GatherLimits settled = options.calibration.settle("verbs", device.name(),
                                                          {.entries_max = options.entries_max,
                                                           .inline_bytes_max = options.inline_bytes,
                                                           .copy_below_bytes = options.copy_below_bytes});
  options.entries_max = settled.entries_max;
  options.inline_bytes = settled.inline_bytes_max;
  options.copy_below_bytes = settled.copy_below_bytes;
  trace.info("verbs: as measured of " + device.name() + ", chunks below " + std::to_string(settled.copy_below_bytes) +
             " B are copied, messages of up to " + std::to_string(settled.inline_bytes_max) +
             " B go inside the descriptor, and it has " + std::to_string(settled.entries_max) + " entries at most");
  return options;
}

}  // namespace

Outcome<std::unique_ptr<VerbsTransport>> VerbsTransport::open(const VerbsOptions& options,
                                                              const VerbsContext& context) {
  RC_CHECK(options.slots_per_session >= 1 && options.slots_per_session <= wire::kSlotCountMax);
  RC_CHECK(options.entries_max >= 2);
  auto device = Device::open({.device = options.device,
                              .port = options.port,
                              .gid_index = options.gid_index,
                              .host = options.host,
                              .traffic_class = options.traffic_class,
                              .service_level = options.service_level});
  if (!device.ok()) return std::move(device).error();
  if (device->limits().gather_entries < 2) {
    return Failure{Status::BadConfig, "RDMA device " + device->name() + " sends from one place only; two are needed"};
  }
  if (!VerbsEndpoint::usesWindows(options, *device)) {
    context.trace.info(
        "verbs: " + device->name() +
        (device->limits().is_software ? " is a software device: no memory windows are used"
                                      : " has no memory windows of type 2B") +
        "; the keys of this process's long messages are good for every server that it has a session with");
  }
  auto owned = std::make_unique<Device>(std::move(device).value());
  return std::unique_ptr<VerbsTransport>(
      new VerbsTransport(calibrated(options, *owned, context.trace), context, std::move(owned)));
}

VerbsTransport::VerbsTransport(const VerbsOptions& options, const VerbsContext& context, std::unique_ptr<Device> device)
    : options_(options),
      context_(context),
      limits_(limitsOf(options, *device)),
      device_(std::move(device)),
      regions_(std::make_unique<Regions>()) {}

VerbsTransport::~VerbsTransport() = default;

Outcome<RegionId> VerbsTransport::registerMemory(std::byte* base, size_t bytes, Access access) {
  if (regions_->count() == UINT16_MAX) return Failure{Status::BadConfig, "too many regions of memory"};
  const int flags = access == Access::RemoteWrite  ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
                    : access == Access::RemoteRead ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ
                                                   : IBV_ACCESS_LOCAL_WRITE;
  auto region = device_->registerMemory(base, bytes, flags);
  if (!region.ok()) {
    regions_->addUnregistered();
    return std::move(region).error();
  }
  return regions_->add(base, bytes, std::move(region).value());
}

std::unique_ptr<Endpoint> VerbsTransport::makeEndpoint(const Identity& identity) {
  return std::make_unique<VerbsEndpoint>(options_, context_, limits_, *device_, *regions_, identity);
}

Outcome<std::unique_ptr<Endpoint>> VerbsTransport::openEndpoint(const Identity& identity) {
  constexpr size_t kTriedBytes = size_t{4} << 20;
  const std::unique_ptr<std::byte[]> memory(new std::byte[kTriedBytes]);
  auto region = device_->registerMemory(memory.get(), kTriedBytes, IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return std::move(region).error();
  auto endpoint = std::make_unique<VerbsEndpoint>(options_, context_, limits_, *device_, *regions_, identity);
  if (!endpoint->ready().ok()) return endpoint->ready().error();
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

std::string VerbsTransport::describeDevice() const { return device_->describe(); }

}  // namespace ramcore::transport::verbs
