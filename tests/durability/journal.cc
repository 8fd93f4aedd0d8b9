#include "durability/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "tools/support/json.h"

namespace durability {
namespace {

using ramcore::tools::Json;

constexpr std::array kKinds = {"read", "write", "remove", "increment"};
constexpr std::array kDemands = {"", "must-exist", "must-not-exist", "version"};

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", path.c_str(), why.c_str());
  std::exit(2);
}

template <typename Enum, typename Names>
Enum parse(const Names& names, const std::string& word) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (word == names[i]) return static_cast<Enum>(i);
  }
  throw std::runtime_error("unknown word '" + word + "'");
}

Call parseBegin(const Json& line) {
  Call call;
  call.id = line.at("call").asUnsigned();
  call.client = static_cast<uint32_t>(line.at("client").asUnsigned());
  call.start_ns = line.at("start").asSigned();
  call.kind = parse<Kind>(kKinds, line.at("kind").asString());
  call.key = line.at("key").asString();
  call.argument = line.valueOf("argument", "");
  call.demand = parse<Demand>(kDemands, line.valueOf("demand", ""));
  call.demanded_version = line.valueOf("demanded_version", uint64_t{0});
  return call;
}

void parseEnd(const Json& line, Call& call) {
  call.status = line.at("status").asString();
  call.version = line.valueOf("version", uint64_t{0});
  call.result = line.valueOf("result", "");
  if (call.fate() != Fate::Unanswered) call.end_ns = line.at("end").asSigned();
}

}  // namespace

Journal::Journal(const std::string& path) : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644)) {
  if (file_ < 0) fail(path, "cannot be written");
}

Journal::~Journal() { close(file_); }

void Journal::append(const std::string& line) {
  if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) fail("journal", "cannot be written");
}

// Keys, values and statuses are letters, digits and dashes: nothing of them needs escaping.
void Journal::begin(const Call& call) {
  std::string line = R"({"call":)" + std::to_string(call.id) + R"(,"client":)" + std::to_string(call.client) +
                     R"(,"start":)" + std::to_string(call.start_ns) + R"(,"kind":")" +
                     kKinds[static_cast<size_t>(call.kind)] + R"(","key":")" + call.key + '"';
  if (!call.argument.empty()) line += R"(,"argument":")" + call.argument + '"';
  if (call.demand != Demand::None) {
    line += std::string(R"(,"demand":")") + kDemands[static_cast<size_t>(call.demand)] + R"(","demanded_version":)" +
            std::to_string(call.demanded_version);
  }
  append(line + "}\n");
}

void Journal::end(const Call& call, int64_t ended_ns) {
  std::string line = R"({"call":)" + std::to_string(call.id) + R"(,"end":)" + std::to_string(ended_ns) +
                     R"(,"status":")" + call.status + R"(","version":)" + std::to_string(call.version);
  if (!call.result.empty()) line += R"(,"result":")" + call.result + '"';
  append(line + "}\n");
}

std::map<std::string, std::vector<Call>> Journal::load(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(path, "cannot be read");
  std::map<std::string, std::vector<Call>> calls;
  std::unordered_map<uint64_t, std::pair<std::string, size_t>> places;
  std::string text;
  for (size_t number = 1; std::getline(file, text); ++number) {
    try {
      std::string why;
      const std::optional<Json> parsed = Json::parse(text, &why);
      if (!parsed) throw std::runtime_error(why);
      const Json& line = *parsed;
      if (line.contains("start")) {
        Call call = parseBegin(line);
        std::vector<Call>& of_key = calls[call.key];
        if (!places.try_emplace(call.id, call.key, of_key.size()).second)
          throw std::runtime_error("a call begins twice");
        of_key.push_back(std::move(call));
      } else {
        const auto& [key, index] = places.at(line.at("call").asUnsigned());
        parseEnd(line, calls[key][index]);
      }
    } catch (const std::exception& problem) {
      if (file.eof()) break;  // no line end behind it: cut off
      fail(path, "line " + std::to_string(number) + ": " + problem.what());
    }
  }
  return calls;
}

}  // namespace durability
