#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace ramcore::transport {

/// Which ways between the nodes of a simulated network are out, on command. SimNetwork says what each state means. One
/// thread.
class SimPaths {
 public:
  /// These return true if they have changed anything.
  bool block(std::string_view from, std::string_view to) { return blocked_.emplace(from, to).second; }
  bool isolate(std::string_view node) { return isolated_.emplace(node).second; }
  bool unblock(std::string_view a, std::string_view b);
  bool rejoin(std::string_view node) { return isolated_.erase(std::string(node)) != 0; }
  /// Ends all that block() and isolate() did.
  void healAll();

  void hush(std::string_view node) { hushed_.emplace(node); }
  void unhush(std::string_view node) { hushed_.erase(std::string(node)); }
  void stall(std::string_view from, std::string_view to) { stalled_.emplace(from, to); }
  void unstall() { stalled_.clear(); }
  void stopReading(std::string_view node) { not_reading_.emplace(node); }
  void resumeReading(std::string_view node) { not_reading_.erase(std::string(node)); }

  bool isBlocked(std::string_view from, std::string_view to) const;
  /// Whether one of the two is hushed.
  bool isHushed(const std::string& a, const std::string& b) const {
    return !hushed_.empty() && (hushed_.contains(a) || hushed_.contains(b));
  }
  bool isStalled(const std::string& from, const std::string& to) const {
    return !stalled_.empty() && stalled_.contains({from, to});
  }
  bool isReading(const std::string& node) const { return !not_reading_.contains(node); }
  bool areAllReading() const { return not_reading_.empty(); }

 private:
  std::set<std::pair<std::string, std::string>> blocked_;
  std::set<std::string> not_reading_;
  std::set<std::string> isolated_;
  std::set<std::string> hushed_;
  std::set<std::pair<std::string, std::string>> stalled_;
};

}  // namespace ramcore::transport
