#include "tools/rc/ndjson.h"

#include <array>
#include <nlohmann/json.hpp>
#include <set>

namespace ramcore::rc {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void addBytes(nlohmann::ordered_json& line, const std::string& name, const std::string& bytes) {
  if (isUtf8(bytes)) {
    line[name] = bytes;
  } else {
    line[name + "64"] = encodeBase64(bytes);
  }
}

// In one line and short, whatever it is.
std::string shownName(const std::string& name) {
  constexpr size_t kShownMax = 64;
  return nlohmann::json(name.substr(0, kShownMax)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

Failure bad(const std::string& what) { return {Status::BadRequest, what}; }

}  // namespace

bool isUtf8(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    const auto first = static_cast<uint8_t>(bytes[i]);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || bytes.size() - i < length) return false;
    uint32_t code = first & (0xFFU >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<uint8_t>(bytes[i + k]);
      if ((next & 0xC0) != 0x80) return false;
      code = code << 6 | (next & 0x3FU);
    }
    constexpr std::array<uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kSmallest[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    i += length;
  }
  return true;
}

std::string encodeBase64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) out += k <= count ? kAlphabet[(group >> (18 - 6 * k)) & 63U] : '=';
  }
  return out;
}

bool decodeBase64(std::string_view text, std::string& out) {
  if (text.size() % 4 != 0) return false;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  out.clear();
  for (size_t i = 0; i < text.size(); i += 4) {
    const size_t padded = i + 4 == text.size() ? padding : 0;
    uint32_t group = 0;
    for (size_t k = 0; k < 4; ++k) {
      const size_t digit = k < 4 - padded ? kAlphabet.find(text[i + k]) : 0;
      if (digit == std::string_view::npos) return false;
      group = group << 6 | static_cast<uint32_t>(digit);
    }
    for (size_t k = 0; k < 3 - padded; ++k) out += static_cast<char>(group >> (16 - 8 * k));
    // Bits that stand for nothing are zero: each value has one spelling.
    if ((group & ((1U << (8 * padded)) - 1)) != 0) return false;
  }
  return true;
}

std::string toLine(const Object& object) {
  nlohmann::ordered_json line;
  addBytes(line, "key", object.key);
  addBytes(line, "value", object.value);
  line["version"] = object.version;
  return line.dump();
}

Outcome<Object> fromLine(std::string_view line) {
  // Of members with one name a parser keeps the last, or the first: what was meant is not known.
  std::set<std::string> names;
  std::string twice;
  const auto note = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& name) {
    if (event != nlohmann::json::parse_event_t::key || depth != 1) return true;
    if (!names.insert(name.get<std::string>()).second) twice = name.get<std::string>();
    return true;
  };
  const nlohmann::json parsed = nlohmann::json::parse(line, note, false);
  if (parsed.is_discarded() || !parsed.is_object()) return bad("not a JSON object");
  if (!twice.empty()) return bad("member " + shownName(twice) + " is there twice");
  Object object;
  bool has_key = false;
  bool has_value = false;
  for (const auto& [name, member] : parsed.items()) {
    if (name == "version") {
      if (!member.is_number_unsigned()) return bad("'version' is not a number");
      object.version = member.get<uint64_t>();
      continue;
    }
    const bool is_key = name == "key" || name == "key64";
    if (!is_key && name != "value" && name != "value64") return bad("unknown member " + shownName(name));
    if (!member.is_string()) return bad("'" + name + "' is not a string");
    bool& is_there = is_key ? has_key : has_value;
    if (is_there) return bad("more than one " + std::string(is_key ? "key" : "value"));
    is_there = true;
    std::string& out = is_key ? object.key : object.value;
    const auto& text = member.get_ref<const std::string&>();
    if (name.ends_with("64")) {
      if (!decodeBase64(text, out)) return bad("'" + name + "' is not base64");
    } else {
      out = text;
    }
  }
  if (!has_key || !has_value) return bad(has_key ? "no value" : "no key");
  return object;
}

}  // namespace ramcore::rc
