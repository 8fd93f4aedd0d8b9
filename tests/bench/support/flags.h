#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ramcore::bench {

/// `--name value` with positive numbers, `--name` alone, nothing else. Ends the program on `--help`, and on anything
/// that it does not know.
class Flags {
 public:
  void number(const std::string& name, double& value) {
    numbers_.emplace_back(name, [&value](double v) { value = v; });
  }
  void number(const std::string& name, int& value) {
    numbers_.emplace_back(name, [&value](double v) { value = static_cast<int>(v); });
  }
  void number(const std::string& name, uint64_t& value) {
    numbers_.emplace_back(name, [&value](double v) { value = static_cast<uint64_t>(v); });
  }
  void flag(const std::string& name, std::function<void()> set) { flags_.emplace_back(name, std::move(set)); }
  void text(const std::string& name, std::string& value) { texts_.emplace_back(name, &value); }

  void parse(int argc, char** argv) const {
    for (int i = 1; i < argc; ++i) {
      if (std::string(argv[i]) == "--help") usage(argv[0], stdout, 0);
      if (!take(argv[i], i + 1 < argc ? argv[i + 1] : nullptr, i)) usage(argv[0], stderr, 2);
    }
  }

 private:
  bool take(const std::string& name, const char* value, int& at) const {
    for (const auto& [known, set] : flags_) {
      if (known == name) return set(), true;
    }
    if (value == nullptr) return false;
    for (const auto& [known, text] : texts_) {
      if (known == name) return *text = value, ++at, true;
    }
    for (const auto& [known, set] : numbers_) {
      if (known == name && std::atof(value) > 0) return set(std::atof(value)), ++at, true;
    }
    return false;
  }
  [[noreturn]] void usage(const char* program, std::FILE* to, int status) const {
    std::fprintf(to, "usage: %s", program);
    for (const auto& [name, set] : numbers_) std::fprintf(to, " [%s N]", name.c_str());
    for (const auto& [name, text] : texts_) std::fprintf(to, " [%s TEXT]", name.c_str());
    for (const auto& [name, set] : flags_) std::fprintf(to, " [%s]", name.c_str());
    std::fprintf(to, "\n");
    std::exit(status);
  }

  std::vector<std::pair<std::string, std::function<void(double)>>> numbers_;
  std::vector<std::pair<std::string, std::string*>> texts_;
  std::vector<std::pair<std::string, std::function<void()>>> flags_;
};

}  // namespace ramcore::bench
