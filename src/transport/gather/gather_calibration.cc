#include "transport/gather/gather_calibration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace ramcore::transport {
namespace {

constexpr size_t kDeviceBytesMax = 64;

struct Key {
  std::string_view name;
  std::optional<uint32_t> GatherSection::* field;
  uint32_t least;
  uint32_t most;
  bool needs_descriptors;  // only for transports that have them; others copy everything
};
constexpr std::array kKeys = {
    Key{"copy_below_bytes", &GatherSection::copy_below_bytes, 1, GatherCalibration::kCopyBelowBytesMost, false},
    Key{"inline_bytes_max", &GatherSection::inline_bytes_max, 0, GatherCalibration::kInlineBytesMost, true},
    Key{"entries_max", &GatherSection::entries_max, 2, GatherCalibration::kEntriesMost, true}};

struct KnownTransport {
  std::string_view name;
  bool has_descriptors;
};
constexpr std::array kTransports = {KnownTransport{"verbs", true}, KnownTransport{"dpdk", true},
                                    KnownTransport{"shm", false}, KnownTransport{"tcp", false}};

const KnownTransport* transportOf(std::string_view name) {
  const auto* const found =
      std::find_if(kTransports.begin(), kTransports.end(), [&](const auto& known) { return known.name == name; });
  return found == kTransports.end() ? nullptr : found;
}

// True for names of RDMA devices, PCI addresses and names of network interfaces.
bool isDeviceName(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.' || c == ':';
  };
  return !name.empty() && name.size() <= kDeviceBytesMax && std::all_of(name.begin(), name.end(), fits);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Reads lines into sections. Each function returns what is wrong with the line, or an empty text.
class SectionReader {
 public:
  std::string read(std::string_view line) {
    line = trimmed(line);
    if (line.empty() || line.front() == '#') return {};
    return line.front() == '[' ? readHeading(line) : readValue(line);
  }
  std::vector<GatherSection> take() { return std::move(sections_); }

 private:
  std::string readHeading(std::string_view line) {
    if (line.back() != ']') return "the section has no end; write it as [verbs:mlx5_0]";
    line = line.substr(1, line.size() - 2);
    const size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    const KnownTransport* const known = transportOf(name);
    if (known == nullptr) {
      return "'" + std::string(name) +
             "' is no transport; sections are [verbs], [dpdk], [shm] and [tcp], or one of the "
             "first two with a device, as [verbs:mlx5_0]";
    }
    const std::string_view device = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (colon != std::string_view::npos && !known->has_descriptors) {
      return std::string(name) + " has no devices; write [" + std::string(name) + "]";
    }
    if (colon != std::string_view::npos && !isDeviceName(device)) {
      return "'" + std::string(device) + "' is no name of a device; rcnic list names them";
    }
    for (const GatherSection& section : sections_) {
      if (section.transport == name && section.device == device) {
        return "[" + std::string(line) + "] is there already; keep one of the two";
      }
    }
    sections_.push_back({.transport = std::string(name), .device = std::string(device)});
    return {};
  }

  std::string readValue(std::string_view line) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return "'" + std::string(line) + "' is neither a section nor a value; write copy_below_bytes = 256";
    }
    const std::string_view name = trimmed(line.substr(0, equals));
    const auto* const key = std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& one) { return one.name == name; });
    if (key == kKeys.end()) {
      return "there is no '" + std::string(name) + "'; keys are copy_below_bytes, inline_bytes_max and entries_max";
    }
    if (sections_.empty()) {
      return std::string(name) + " stands in no section; write [verbs:mlx5_0] or the like in front of it";
    }
    GatherSection& section = sections_.back();
    if (key->needs_descriptors && !transportOf(section.transport)->has_descriptors) {
      return section.transport + " has no descriptors, so " + std::string(name) + " says nothing to it; take it out";
    }
    if (section.*key->field) return std::string(name) + " is there already; keep one of the two";
    const std::string_view text = trimmed(line.substr(equals + 1));
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < key->least ||
        value > key->most) {
      return "'" + std::string(text) + "' is no value of " + std::string(name) + "; give a whole number from " +
             std::to_string(key->least) + " to " + std::to_string(key->most) +
             ", or measure it again with rcnic calibrate";
    }
    section.*key->field = value;
    return {};
  }

  std::vector<GatherSection> sections_;
};

void adopt(const GatherSection& section, GatherLimits& limits) {
  limits.copy_below_bytes = section.copy_below_bytes.value_or(limits.copy_below_bytes);
  limits.inline_bytes_max = section.inline_bytes_max.value_or(limits.inline_bytes_max);
  limits.entries_max = section.entries_max.value_or(limits.entries_max);
}

}  // namespace

Outcome<GatherCalibration> GatherCalibration::parse(std::string_view text, const std::string& name) {
  const auto failure = [&](size_t line, const std::string& what) {
    return Failure{Status::BadConfig, name + ":" + std::to_string(line) + ": " + what};
  };
  if (text.size() > kTextBytesMax) {
    return failure(1, "the file has " + std::to_string(text.size()) + " bytes, more than " +
                          std::to_string(kTextBytesMax) + "; give one that rcnic calibrate has written");
  }
  SectionReader reader;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string wrong = reader.read(text.substr(0, end));
    if (!wrong.empty()) return failure(number, wrong);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  GatherCalibration calibration;
  calibration.sections_ = reader.take();
  return calibration;
}

std::string GatherCalibration::text() const {
  std::string text;
  for (const GatherSection& section : sections_) {
    text += "[" + section.transport + (section.device.empty() ? "" : ":" + section.device) + "]\n";
    for (const Key& key : kKeys) {
      if (const auto& value = section.*key.field) {
        text += std::string(key.name) + " = " + std::to_string(*value) + "\n";
      }
    }
  }
  return text;
}

void GatherCalibration::set(GatherSection section) {
  const KnownTransport* const known = transportOf(section.transport);
  RC_CHECK(known != nullptr && (section.device.empty() || (known->has_descriptors && isDeviceName(section.device))));
  for (const Key& key : kKeys) {
    const auto& value = section.*key.field;
    RC_CHECK(!value ||
             (*value >= key.least && *value <= key.most && (known->has_descriptors || !key.needs_descriptors)));
  }
  const auto found = std::find_if(sections_.begin(), sections_.end(), [&](const GatherSection& other) {
    return other.transport == section.transport && other.device == section.device;
  });
  if (found == sections_.end()) {
    sections_.push_back(std::move(section));
  } else {
    *found = std::move(section);
  }
}

GatherLimits GatherCalibration::settle(std::string_view transport, std::string_view device,
                                       GatherLimits defaults) const {
  for (const GatherSection& section : sections_) {
    if (section.transport == transport && section.device.empty()) adopt(section, defaults);
  }
  // The device's own section comes second, so that it wins.
  for (const GatherSection& section : sections_) {
    if (section.transport == transport && !device.empty() && section.device == device) adopt(section, defaults);
  }
  return defaults;
}

bool GatherCalibration::knows(std::string_view transport, std::string_view device) const {
  return std::any_of(sections_.begin(), sections_.end(), [&](const GatherSection& section) {
    return section.transport == transport && (section.device.empty() || section.device == device);
  });
}

}  // namespace ramcore::transport
