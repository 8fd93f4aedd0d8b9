#include "tools/rc/ndjson.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "tools/support/json.h"

namespace ramcore::rc {
namespace {

using tools::Json;

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void addBytes(Json& line, const std::string& name, const std::string& bytes) {
  if (isUtf8(bytes)) {
    line[name] = bytes;
  } else {
    line[name + "64"] = encodeBase64(bytes);
  }
}

// The name as a short text in one line, whatever bytes it has.
std::string shownName(const std::string& name) {
  constexpr size_t kShownMax = 64;
  return tools::quotedAscii(std::string_view(name).substr(0, kShownMax));
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
    // Unused bits have to be zero, so that each value has only one spelling.
    if ((group & ((1U << (8 * padded)) - 1)) != 0) return false;
  }
  return true;
}

std::string toLine(const Object& object) {
  Json line;
  addBytes(line, "key", object.key);
  addBytes(line, "value", object.value);
  line["version"] = object.version;
  return line.dump();
}

Outcome<Object> fromLine(std::string_view line) {
  const std::optional<Json> parsed = Json::parse(line);
  if (!parsed || !parsed->isObject()) return bad("not a JSON object");
  // If several members have the same name, some readers keep the last and others the first: which was meant is not
  // known.
  std::map<std::string, const Json*> members;
  std::string twice;
  for (const tools::JsonMember& member : parsed->members()) {
    if (!members.emplace(member.name, &member.value).second) twice = member.name;
  }
  if (!twice.empty()) return bad("member " + shownName(twice) + " is there twice");
  Object object;
  bool has_key = false;
  bool has_value = false;
  for (const auto& [name, member] : members) {
    if (name == "version") {
      if (!member->isUnsigned()) return bad("'version' is not a number");
      object.version = member->asUnsigned();
      continue;
    }
    const bool is_key = name == "key" || name == "key64";
    if (!is_key && name != "value" && name != "value64") return bad("unknown member " + shownName(name));
    if (!member->isString()) return bad("'" + name + "' is not a string");
    bool& is_there = is_key ? has_key : has_value;
    if (is_there) return bad("more than one " + std::string(is_key ? "key" : "value"));
    is_there = true;
    std::string& out = is_key ? object.key : object.value;
    if (!name.ends_with("64")) {
      out = member->asString();
    } else if (!decodeBase64(member->asString(), out)) {
      return bad("'" + name + "' is not base64");
    }
  }
  if (!has_key || !has_value) return bad(has_key ? "no value" : "no key");
  return object;
}

}  // namespace ramcore::rc
