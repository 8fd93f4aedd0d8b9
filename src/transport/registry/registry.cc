#include "transport/registry/registry.h"

#include <charconv>
#include <optional>
#include <system_error>

#include "transport/shm/shm_transport.h"
#include "transport/tcp/asio_sleeper.h"
#include "transport/tcp/tcp_transport.h"
#ifdef RAMCORE_HAS_DPDK
#include "transport/dpdk/dpdk_transport.h"
#endif
#ifdef RAMCORE_HAS_VERBS
#include "transport/verbs/device.h"
#include "transport/verbs/verbs_transport.h"
#endif

namespace ramcore::transport {
namespace {

std::optional<uint8_t> numberOf(std::string_view text) {
  uint8_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

Failure badChoice(std::string_view text) {
  return Failure{Status::BadConfig, "'" + std::string(text) +
                                        "' chooses no RDMA device; write its name, or name:port, or name:port:gid, for "
                                        "example mlx5_0:1:3 (ibv_devinfo -v lists them)"};
}

// The length from which on shm or tcp borrows values.
uint32_t borrowFrom(const GatherCalibration& gather, std::string_view transport, uint32_t zero_copy_bytes_min) {
  return gather.settle(transport, "", {.copy_below_bytes = zero_copy_bytes_min}).copy_below_bytes;
}

}  // namespace

Outcome<VerbsDeviceChoice> VerbsDeviceChoice::parse(std::string_view text) {
  VerbsDeviceChoice choice;
  const size_t colon = text.find(':');
  choice.device = text.substr(0, colon);
  if (choice.device.empty()) return badChoice(text);
  if (colon == std::string_view::npos) return choice;
  const std::string_view rest = text.substr(colon + 1);
  const size_t second = rest.find(':');
  const auto port = numberOf(rest.substr(0, second));
  if (!port || *port == 0) return badChoice(text);
  choice.port = *port;
  if (second == std::string_view::npos) return choice;
  const auto gid = numberOf(rest.substr(second + 1));
  if (!gid) return badChoice(text);
  choice.gid_index = *gid;
  return choice;
}

Outcome<VerbsDeviceChoice> VerbsDeviceChoice::of(const Locator& locator) {
  VerbsDeviceChoice choice;
  choice.host = locator.host;
  for (const auto& [key, value] : locator.options) {
    if (key == "device") {
      choice.device = value;
      continue;
    }
    const auto number = numberOf(value);
    if ((key != "port" && key != "gid") || !number || (key == "port" && *number == 0)) {
      return Failure{Status::BadConfig, "'" + locator.toString() + "': '" + key + "=" + value +
                                            "' means nothing; verbs takes device=NAME, port=NUMBER and gid=NUMBER"};
    }
    if (key == "port") choice.port = *number;
    if (key == "gid") choice.gid_index = *number;
  }
  return choice;
}

/// Members are in the order of their lives: the sleeper outlives the endpoints that use it.
struct TransportSet::Parts {
  explicit Parts(const Context& what)
      : context(what), sleeper(what.sleeper != nullptr ? *what.sleeper : own_sleeper.emplace(what.clock)) {}

  Context context;
  std::optional<tcp::AsioSleeper> own_sleeper;
  tcp::AsioSleeper& sleeper;
  std::string why_no_verbs;
  std::optional<tcp::TcpTransport> tcp;
  std::optional<shm::ShmTransport> shm;
#ifdef RAMCORE_HAS_VERBS
  std::unique_ptr<verbs::VerbsTransport> verbs;
  std::unique_ptr<Endpoint> verbs_endpoint;  // until open() moves it to owned_
  bool is_verbs_must = false;
#endif
#ifdef RAMCORE_HAS_DPDK
  std::unique_ptr<dpdk::DpdkTransport> dpdk;
#endif

  Outcome<bool> openDpdk(const TransportChoices& choices);
  Outcome<bool> openVerbs(const TransportChoices& choices, const Identity& identity);
};

Outcome<bool> TransportSet::Parts::openVerbs(const TransportChoices& choices,
                                             [[maybe_unused]] const Identity& identity) {
  const bool is_must = choices.verbs == TransportChoices::Wanted::Yes;
#ifdef RAMCORE_HAS_VERBS
  if (!is_must && verbs::Device::names().empty()) return false;
  verbs::VerbsOptions options;
  options.device = choices.verbs_device.device;
  options.port = choices.verbs_device.port;
  options.gid_index = choices.verbs_device.gid_index;
  options.host = choices.verbs_device.host;
  options.traffic_class = choices.rdma_class.traffic_class;
  options.service_level = choices.rdma_class.service_level;
  options.calibration = choices.gather;
  if (choices.borrowed_ns_max != 0) options.borrowed_ns_max = choices.borrowed_ns_max;
  if (choices.sessions_max != 0) options.sessions_max = choices.sessions_max;
  auto opened = verbs::VerbsTransport::open(
      options, {.clock = context.clock, .entropy = context.entropy, .trace = context.trace, .sleeper = &sleeper});
  Failure why;
  if (opened.ok()) {
    auto endpoint = (*opened)->openEndpoint(identity);
    if (endpoint.ok()) {
      verbs = std::move(opened).value();
      verbs_endpoint = std::move(endpoint).value();
      is_verbs_must = is_must;
      context.trace.debug("verbs: using " + verbs->describeDevice());
      return true;
    }
    why = std::move(endpoint).error();
  } else {
    why = std::move(opened).error();
  }
  if (is_must) return why;
  context.trace.info("verbs: not used: " + why.message);
  why_no_verbs = std::move(why.message);
  return false;
#else
  if (!is_must) return false;
  return Failure{Status::BadConfig, "this build has no verbs transport: build with RAMCORE_VERBS=ON, or use tcp"};
#endif
}

// Opens nothing unless ports are named: no port is taken from the system without being named.
Outcome<bool> TransportSet::Parts::openDpdk(const TransportChoices& choices) {
  const DpdkChoice& choice = choices.dpdk;
  if (choice.ports.empty()) return false;
#ifdef RAMCORE_HAS_DPDK
  dpdk::DpdkOptions options;
  options.environment = {.ports = choice.ports,
                         .memory_mb = choice.memory_mb,
                         .huge_pages = choice.huge_pages,
                         .arguments = choice.arguments};
  options.mtu = choice.mtu;
  options.protocol.wants_seal = choice.seal;
  const std::string driver = dpdk::DeviceName::split(choice.ports.front()).driver();
  options.protocol.gather = choices.gather.settle("dpdk", driver, options.protocol.gather);
  if (choices.gather.knows("dpdk", driver)) {
    context.trace.info("dpdk: as measured of " + driver + ", chunks below " +
                       std::to_string(options.protocol.gather.copy_below_bytes) + " B are copied");
  }
  if (choices.borrowed_ns_max != 0) options.protocol.borrowed_ns_max = choices.borrowed_ns_max;
  if (choices.sessions_max != 0) options.protocol.sessions_max = choices.sessions_max;
  if (!choice.address.empty()) {
    const auto address = datagram::MacAddress::parse(choice.address);
    if (!address || (address->bytes[0] & 1) != 0) {
      return Failure{Status::BadConfig, "'" + choice.address +
                                            "' is no address of a port; write one whose first byte is even, such as "
                                            "02:00:00:00:00:01"};
    }
    options.address = *address;
  }
  auto faults = datagram::FaultRates::parse(choice.faults);
  if (!faults.ok()) return std::move(faults).error();
  options.faults = *faults;
  auto opened = dpdk::DpdkTransport::open(options, {.clock = context.clock,
                                                    .entropy = context.entropy,
                                                    .trace = context.trace,
                                                    .wake_by = [this](int64_t ns) { sleeper.wakeBy(ns); }});
  if (!opened.ok()) return std::move(opened).error();
  dpdk = std::move(opened).value();
  context.trace.debug("dpdk: using " + dpdk->describe());
  if (!options.faults.isNothing()) context.trace.warning("dpdk: frames that arrive are disturbed: --dpdk-faults");
  return true;
#else
  return Failure{Status::BadConfig, "this build has no dpdk transport: build with RAMCORE_DPDK=ON, or use tcp"};
#endif
}

Outcome<std::unique_ptr<TransportSet>> TransportSet::open(const TransportChoices& choices, const Context& context,
                                                          const Identity& identity) {
  auto parts = std::make_unique<Parts>(context);
  if (choices.verbs != TransportChoices::Wanted::No) {
    auto opened = parts->openVerbs(choices, identity);
    if (!opened.ok()) return std::move(opened).error();
  }
  if (auto opened = parts->openDpdk(choices); !opened.ok()) return std::move(opened).error();
  if (choices.shm) {
    shm::ShmOptions options;
    options.zero_copy_bytes_min = borrowFrom(choices.gather, "shm", options.zero_copy_bytes_min);
    if (choices.borrowed_ns_max != 0) options.borrowed_ns_max = choices.borrowed_ns_max;
    if (choices.sessions_max != 0) options.sessions_max = choices.sessions_max;
    parts->shm.emplace(
        options,
        shm::ShmContext{
            .clock = context.clock, .entropy = context.entropy, .trace = context.trace, .sleeper = &parts->sleeper});
  }
  if (choices.tcp) {
    tcp::TcpOptions options;
    options.zero_copy_bytes_min = borrowFrom(choices.gather, "tcp", options.zero_copy_bytes_min);
    if (choices.borrowed_ns_max != 0) options.borrowed_ns_max = choices.borrowed_ns_max;
    if (choices.sessions_max != 0) options.sessions_max = choices.sessions_max;
    parts->tcp.emplace(
        options,
        tcp::TcpContext{
            .clock = context.clock, .entropy = context.entropy, .trace = context.trace, .sleeper = parts->sleeper});
  }
  std::unique_ptr<TransportSet> set(new TransportSet(std::move(parts)));
  // The endpoint of verbs comes first: requests are made in buffers of the first endpoint, before it is known which one
  // will send them, and the others send from any memory.
#ifdef RAMCORE_HAS_VERBS
  if (set->parts_->verbs != nullptr) set->add(*set->parts_->verbs, std::move(set->parts_->verbs_endpoint));
#endif
  if (set->parts_->shm) set->add(*set->parts_->shm, set->parts_->shm->makeEndpoint(identity));
#ifdef RAMCORE_HAS_DPDK
  if (set->parts_->dpdk != nullptr) set->add(*set->parts_->dpdk, set->parts_->dpdk->makeEndpoint(identity));
#endif
  if (set->parts_->tcp) set->add(*set->parts_->tcp, set->parts_->tcp->makeEndpoint(identity));
  return set;
}

TransportSet::TransportSet(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

// Endpoints are destroyed from the back: messages that one of them still sends may be in buffers of the first one
// (rpc::Caller).
TransportSet::~TransportSet() {
  while (!owned_.empty()) owned_.pop_back();
}

void TransportSet::add(Transport& transport, std::unique_ptr<Endpoint> endpoint) {
  transports_.push_back(&transport);
  owned_.push_back(std::move(endpoint));
  endpoints_.push_back(owned_.back().get());
}

Sleeper& TransportSet::sleeper() { return parts_->sleeper; }

Endpoint* TransportSet::endpointFor(const Locator& locator) const {
  for (size_t i = 0; i < transports_.size(); ++i) {
    if (transports_[i]->scheme() == locator.scheme) return endpoints_[i];
  }
  return nullptr;
}

std::string TransportSet::schemes() const {
  std::string text;
  for (const Transport* transport : transports_) text += (text.empty() ? "" : ", ") + std::string(transport->scheme());
  return text;
}

const std::string& TransportSet::whyNoVerbs() const { return parts_->why_no_verbs; }

std::string TransportSet::whyAbsent(std::string_view scheme) const {
  if (scheme == "verbs") {
    if (!parts_->why_no_verbs.empty()) return parts_->why_no_verbs;
#ifdef RAMCORE_HAS_VERBS
    return "this machine has no RDMA device";
#endif
  }
  if (scheme == "dpdk") {
#ifdef RAMCORE_HAS_DPDK
    return "no port of DPDK is named (--dpdk-port)";
#endif
  }
  return "this build does not have it";
}

bool TransportSet::isMust([[maybe_unused]] const Transport& transport) const {
#ifdef RAMCORE_HAS_VERBS
  if (&transport == parts_->verbs.get()) return parts_->is_verbs_must;
#endif
  return true;
}

Outcome<RegionId> TransportSet::registerMemory(std::byte* base, size_t bytes, Access access) {
  RegionId id = 0;
  for (Transport* transport : transports_) {
    auto registered = transport->registerMemory(base, bytes, access);
    if (!registered.ok() && isMust(*transport)) return registered;
    if (!registered.ok()) {
      parts_->context.trace.warning(registered.error().message + "; until then what is sent is copied");
      continue;
    }
    // All transports are told of the same memory, and a failure uses a number up, so the numbers agree.
    if (*registered == 0) continue;
    RC_CHECK(id == 0 || id == *registered);
    id = *registered;
  }
  return id;
}

}  // namespace ramcore::transport
