#include "vm/parts_world.h"

#include <cstdlib>

#include "wire/frame.h"

namespace ramcore::transport::verbs {
namespace {

Device openDevice(Role role) {
  const char* name = std::getenv(role == Role::Server ? "RDMA_DEV0" : "RDMA_DEV1");
  auto device = Device::open({.device = name == nullptr ? "" : name, .host = ""});
  RC_CHECK_MSG(device.ok(), device.error().message.c_str());
  return std::move(device).value();
}

// As VerbsTransport has them.
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

}  // namespace

VerbsOptions impatientOptions() {
  VerbsOptions options;
  options.greeting_timeout_ns = runtime::kNanosPerSecond / 2;
  options.stall_close_ns = runtime::kNanosPerSecond;
  options.ack_timeout = 18;  // emulated machines are slow
  options.windows = VerbsOptions::Windows::Everywhere;
  return options;
}

PartsNode::PartsNode(const VerbsOptions& options, runtime::Clock& clock, runtime::Entropy& entropy,
                     const Identity& identity)
    : sleeper_(clock), device_(openDevice(identity.role)), limits_(limitsOf(options, device_)) {
  contract::ChunkArena& arena = contract::chunkArena();
  auto region = device_.registerMemory(arena.base, contract::ChunkArena::kBytes, IBV_ACCESS_LOCAL_WRITE);
  RC_CHECK_MSG(region.ok(), region.error().message.c_str());
  arena.region = regions_.add(arena.base, contract::ChunkArena::kBytes, std::move(region).value());
  const VerbsContext context{
      .clock = clock, .entropy = entropy, .trace = stderrTrace("contract"), .sleeper = &sleeper_};
  endpoint_ = std::make_unique<VerbsEndpoint>(options, context, limits_, device_, regions_, identity);
}

PartsWorld::PartsWorld(const VerbsOptions& options) : options_(options) {
  contract::ChunkArena& arena = contract::chunkArena();
  if (arena.base == nullptr) {
    arena.base = static_cast<std::byte*>(std::aligned_alloc(2u << 20, contract::ChunkArena::kBytes));
  }
  arena.used_bytes = 0;
}

std::unique_ptr<contract::Node> PartsWorld::makeNode(const contract::NodeOptions& options, const Identity& identity) {
  VerbsOptions verbs = options_;
  verbs.slots_per_session = options.slots_per_session;
  return std::make_unique<PartsNode>(verbs, clock_, entropy_, identity);
}

}  // namespace ramcore::transport::verbs
