#pragma once

#include <map>
#include <string>
#include <vector>

#include "durability/call.h"

namespace durability {

/// The file of all calls: a line of JSON when a call begins and one when it ends, each written to the system before the
/// oracle goes on. So it holds every call that may have reached a server, also when the oracle itself is killed.
///
/// Any thread: a line is one write() to the end of the file.
class Journal {
 public:
  /// Creates the file, or empties it. Ends the process if it cannot.
  explicit Journal(const std::string& path);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  void begin(const Call& call);
  void end(const Call& call, int64_t ended_ns);

  /// The calls of a file by key, in the order in which they began. Ends the process if a line makes no sense; a last
  /// line that was cut off does not count.
  static std::map<std::string, std::vector<Call>> load(const std::string& path);

 private:
  void append(const std::string& line);

  int file_ = -1;
};

}  // namespace durability
