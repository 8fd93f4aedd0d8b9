#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ramcore::rcmigrate {

/// How far long work is, on stderr: on a terminal the lines are written over those of before.
class ProgressLines {
 public:
  ProgressLines();
  ProgressLines(const ProgressLines&) = delete;
  ProgressLines& operator=(const ProgressLines&) = delete;
  ~ProgressLines() { clear(); }

  bool isOnTerminal() const { return is_on_terminal_; }
  /// @param lines  without line ends; on a terminal they are cut to its width
  void show(const std::vector<std::string>& lines);
  /// Takes what is shown off a terminal.
  void clear();

 private:
  const bool is_on_terminal_;
  size_t shown_ = 0;
};

}  // namespace ramcore::rcmigrate
