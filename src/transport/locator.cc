#include "transport/locator.h"

#include <charconv>
#include <system_error>

namespace ramcore::transport {
namespace {

constexpr std::string_view kExamples = "write e.g. tcp://127.0.0.1:11100 or shm:///run/ramcore/server1";

Failure bad(std::string_view text, std::string_view why) {
  std::string message = "bad locator '";
  message.append(text).append("': ").append(why).append("; ").append(kExamples);
  return Failure{Status::BadConfig, std::move(message)};
}

bool parsePort(std::string_view text, uint16_t& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// True if the text has only letters, digits and characters of `also` (a zone of IPv6 follows '%').
bool isHost(std::string_view text, std::string_view also) {
  constexpr std::string_view kLettersAndDigits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  for (const char c : text) {
    if (kLettersAndDigits.find(c) == std::string_view::npos && also.find(c) == std::string_view::npos) return false;
  }
  return !text.empty();
}

// True for "any" and for "02:00:00:00:00:01", in lower case only, so that an address is written in one way.
bool isEthernetHost(std::string_view text) {
  if (text == "any") return true;
  if (text.size() != 17) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_right =
        i % 3 == 2 ? text[i] == ':' : std::string_view("0123456789abcdef").find(text[i]) != std::string_view::npos;
    if (!is_right) return false;
  }
  return true;
}

// "host:port", "[v6]:port"; false if the shape is wrong.
bool parseAuthority(std::string_view text, std::string& host, uint16_t& port) {
  size_t colon = text.rfind(':');
  if (!text.empty() && text.front() == '[') {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos || bracket + 1 >= text.size() || text[bracket + 1] != ':') return false;
    host = text.substr(1, bracket - 1);
    if (!isHost(host, ":.%-_")) return false;
    colon = bracket + 1;
  } else {
    if (colon == std::string_view::npos) return false;
    host = text.substr(0, colon);
    if (!isHost(host, ".-_")) return false;
  }
  return parsePort(text.substr(colon + 1), port);
}

}  // namespace

std::string Locator::toString() const {
  std::string text = scheme + "://";
  if (scheme == "shm") {
    text += path;
  } else if (scheme == "sim") {
    text += host;
  } else if (scheme == "dpdk") {
    text += host + "@" + std::to_string(port);
  } else {
    text += host.find_first_of(":%") == std::string::npos ? host : "[" + host + "]";
    text += ":" + std::to_string(port);
  }
  char separator = '?';
  for (const auto& [key, value] : options) {
    text += separator + key + "=" + value;
    separator = '&';
  }
  return text;
}

Outcome<Locator> Locator::parse(std::string_view text) {
  Locator locator;
  // A socket's path ends at its first zero byte, so locators that differ only behind it would have the same meaning.
  if (text.find('\0') != std::string_view::npos) return bad("(binary)", "it contains a zero byte");
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos || scheme_end == 0) return bad(text, "no scheme");
  locator.scheme = text.substr(0, scheme_end);
  std::string_view rest = text.substr(scheme_end + 3);

  if (const size_t question = rest.find('?'); question != std::string_view::npos) {
    std::string_view options = rest.substr(question + 1);
    rest = rest.substr(0, question);
    while (!options.empty()) {
      const size_t end = options.find('&');
      const std::string_view option = options.substr(0, end);
      const size_t equals = option.find('=');
      if (equals == std::string_view::npos || equals == 0) return bad(text, "an option is not key=value");
      if (!locator.options.emplace(option.substr(0, equals), option.substr(equals + 1)).second) {
        return bad(text, "an option is given twice");
      }
      options = end == std::string_view::npos ? std::string_view{} : options.substr(end + 1);
    }
  }

  if (locator.scheme == "shm") {
    if (rest.empty() || rest.front() != '/') return bad(text, "shm wants an absolute path");
    if (rest.size() > 100) return bad(text, "the path of a UNIX socket has at most 100 bytes");
    locator.path = rest;
  } else if (locator.scheme == "sim") {
    if (rest.empty()) return bad(text, "sim wants a node name");
    locator.host = rest;
  } else if (locator.scheme == "tcp" || locator.scheme == "verbs") {
    if (!parseAuthority(rest, locator.host, locator.port)) return bad(text, "expected host:port");
  } else if (locator.scheme == "dpdk") {
    const size_t at = rest.find('@');
    if (at == std::string_view::npos || !isEthernetHost(rest.substr(0, at)) ||
        !parsePort(rest.substr(at + 1), locator.port)) {
      return bad(text, "expected the Ethernet address of a port, or 'any', and a number: dpdk://02:00:00:00:00:01@1");
    }
    locator.host = rest.substr(0, at);
  } else if (locator.scheme == "all") {
    return bad(text, "'all' is for --listen: it says where to listen, and nobody is reached by it");
  } else {
    return bad(text, "unknown scheme '" + locator.scheme + "'");
  }
  return locator;
}

bool isLocalOnly(const Locator& locator) {
  if (locator.scheme == "shm" || locator.scheme == "sim") return true;
  if (locator.host == "localhost" || locator.host == "::1") return true;
  // A name such as 127.example.org is not an address: only digits and dots may follow.
  return locator.host.starts_with("127.") && locator.host.find_first_not_of("0123456789.") == std::string::npos;
}

bool mayOpenAndNotWork(const Locator& locator) { return locator.scheme != "shm" && locator.scheme != "tcp"; }

}  // namespace ramcore::transport
