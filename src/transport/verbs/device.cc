#include "transport/verbs/device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "transport/verbs/gid_choice.h"

namespace ramcore::transport::verbs {
namespace {

class DeviceList {
 public:
  DeviceList() : devices_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (devices_ != nullptr) ibv_free_device_list(devices_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  std::vector<ibv_device*> all() const {
    return devices_ == nullptr ? std::vector<ibv_device*>{} : std::vector<ibv_device*>(devices_, devices_ + count_);
  }

 private:
  int count_ = 0;
  ibv_device** devices_;
};

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The table has room for all entries that the ports can have: if there were more than fit, the kernel would tell none.
std::vector<ibv_gid_entry> gidsOf(ibv_context* context) {
  ibv_device_attr attributes{};
  if (ibv_query_device(context, &attributes) != 0) return {};
  size_t count_max = 0;
  for (uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
    ibv_port_attr found{};
    if (ibv_query_port(context, port, &found) == 0) count_max += static_cast<size_t>(std::max(found.gid_tbl_len, 0));
  }
  std::vector<ibv_gid_entry> entries(count_max);
  const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  entries.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return entries;
}

bool hasHost(ibv_device* device, const ibv_gid& wanted) {
  const Context context(ibv_open_device(device));
  if (context == nullptr) return false;
  const std::vector<ibv_gid_entry> entries = gidsOf(context.get());
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return isSameGid(entry.gid, wanted); });
}

bool hasActivePort(ibv_device* device) {
  const Context context(ibv_open_device(device));
  ibv_device_attr attributes{};
  if (context == nullptr || ibv_query_device(context.get(), &attributes) != 0) return false;
  for (uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
    ibv_port_attr found{};
    if (ibv_query_port(context.get(), port, &found) == 0 && found.state == IBV_PORT_ACTIVE) return true;
  }
  return false;
}

ibv_device* choose(const std::vector<ibv_device*>& devices, const DeviceChoice& choice) {
  const auto find = [&](const auto& is_it) {
    const auto found = std::find_if(devices.begin(), devices.end(), is_it);
    return found == devices.end() ? nullptr : *found;
  };
  if (!choice.device.empty()) {
    return find([&](ibv_device* device) { return choice.device == ibv_get_device_name(device); });
  }
  if (const auto wanted = gidOf(choice.host)) {
    if (ibv_device* device = find([&](ibv_device* one) { return hasHost(one, *wanted); })) return device;
  }
  return find(&hasActivePort);
}

}  // namespace

std::vector<std::string> Device::names() {
  std::vector<std::string> names;
  for (ibv_device* device : DeviceList().all()) names.emplace_back(ibv_get_device_name(device));
  return names;
}

Outcome<Device> Device::open(const DeviceChoice& choice) {
  const DeviceList list;
  const std::vector<ibv_device*> devices = list.all();
  if (devices.empty()) {
    return Failure{Status::BadConfig,
                   "this machine has no RDMA device; load the driver of the adapter (ibv_devices lists what there is), "
                   "or a software one: rdma link add rxe0 type rxe netdev eth0"};
  }
  ibv_device* const chosen = choose(devices, choice);
  if (chosen == nullptr) {
    const std::string what =
        choice.device.empty() ? "no RDMA device has an active port" : "there is no RDMA device '" + choice.device + "'";
    return Failure{Status::BadConfig, what + "; there are: " + listed(names()) + "; ibv_devinfo tells their states"};
  }
  Device device;
  device.name_ = ibv_get_device_name(chosen);
  device.traffic_class_ = choice.traffic_class;
  device.service_level_ = choice.service_level;
  device.context_.reset(ibv_open_device(chosen));
  if (device.context_ == nullptr) {
    return Failure{Status::IoError, "cannot open RDMA device " + device.name_ + ": " + std::strerror(errno) +
                                        "; /dev/infiniband/uverbs* must be readable and writable for this user"};
  }
  device.domain_.reset(ibv_alloc_pd(device.context_.get()));
  ibv_device_attr attributes{};
  if (device.domain_ == nullptr || ibv_query_device(device.context_.get(), &attributes) != 0) {
    return Failure{Status::IoError, "cannot use RDMA device " + device.name_ + ": " + std::strerror(errno)};
  }
  device.limits_.gather_entries = static_cast<uint32_t>(std::max(attributes.max_sge, 1));
  device.limits_.queue_pair_sends = static_cast<uint32_t>(std::max(attributes.max_qp_wr, 1));
  device.limits_.receive_buffers = static_cast<uint32_t>(std::max(attributes.max_srq_wr, 0));
  device.limits_.completions = static_cast<uint32_t>(std::max(attributes.max_cqe, 1));
  const int reads = std::min(attributes.max_qp_rd_atom, attributes.max_qp_init_rd_atom);
  // The kernel may know windows where the library in front of it does not, so one is made.
  device.limits_.has_windows =
      (attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0 && device.makeWindow() != nullptr;
  // The vendor of rxe is 0 or 0xffffff, that of siw is "bmt".
  device.limits_.is_software =
      attributes.vendor_id == 0 || attributes.vendor_id == 0xffffff || attributes.vendor_id == 0x626d74;
  device.limits_.reads_at_a_time = static_cast<uint8_t>(std::clamp(reads, 1, 16));
  if (auto port = device.choosePort(choice); !port.ok()) return std::move(port).error();
  if (auto gid = device.chooseGid(choice); !gid.ok()) return std::move(gid).error();
  return device;
}

Outcome<bool> Device::choosePort(const DeviceChoice& choice) {
  ibv_device_attr attributes{};
  if (ibv_query_device(context_.get(), &attributes) != 0) {
    return Failure{Status::IoError, "cannot ask RDMA device " + name_ + " for its ports: " + std::strerror(errno)};
  }
  for (uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
    if (choice.port != 0 && port != choice.port) continue;
    if (ibv_query_port(context_.get(), port, &port_attributes_) != 0) continue;
    if (port_attributes_.state != IBV_PORT_ACTIVE) continue;
    port_ = port;
    limits_.message_bytes = port_attributes_.max_msg_sz;
    return true;
  }
  const std::string device = "RDMA device " + name_;
  const std::string count = std::to_string(attributes.phys_port_cnt);
  if (choice.port > attributes.phys_port_cnt) {
    return Failure{Status::BadConfig, device + " has no port " + std::to_string(choice.port) + "; its ports are 1 to " +
                                          count + ", name another one"};
  }
  const std::string which = choice.port == 0
                                ? device + " has no active port (it has " + count + ")"
                                : "port " + std::to_string(choice.port) + " of " + device + " is not active";
  return Failure{Status::BadConfig, which + "; check the cable, the switch, and for InfiniBand the subnet manager"};
}

Outcome<bool> Device::chooseGid(const DeviceChoice& choice) {
  const std::vector<ibv_gid_entry> entries = gidsOf(context_.get());
  const ibv_gid_entry* const best = verbs::chooseGid(
      entries, {.port = port_, .is_ethernet = isEthernet(), .index = choice.gid_index, .host = gidOf(choice.host)});
  if (best == nullptr) {
    return Failure{Status::BadConfig, "RDMA device " + name_ + " has no address" +
                                          (choice.gid_index >= 0 ? " number " + std::to_string(choice.gid_index) : "") +
                                          " at port " + std::to_string(port_) +
                                          "; give its network interface one (ip address add ...), or choose another "
                                          "gid= : ibv_devinfo -v lists them"};
  }
  gid_index_ = static_cast<uint8_t>(best->gid_index);
  gid_ = best->gid;
  return true;
}

std::string Device::describe() const {
  return name_ + " port " + std::to_string(port_) + " gid " + std::to_string(gid_index_) +
         (traffic_class_ != 0 ? " traffic class " + std::to_string(traffic_class_) : "") +
         (service_level_ != 0 ? " service level " + std::to_string(service_level_) : "");
}

Outcome<MemoryRegion> Device::registerMemory(void* base, size_t bytes, int access) const {
  MemoryRegion region(ibv_reg_mr(domain_.get(), base, bytes, access));
  if (region != nullptr) return region;
  const int error = errno;
  return Failure{
      error == ENOMEM ? Status::NoSpace : Status::IoError,
      "RDMA device " + name_ + " cannot register " + std::to_string(bytes) +
          " bytes of memory: " + std::strerror(error) +
          (error == ENOMEM ? "; raise the limit of locked memory (ulimit -l; LimitMEMLOCK= of systemd)" : "")};
}

}  // namespace ramcore::transport::verbs
