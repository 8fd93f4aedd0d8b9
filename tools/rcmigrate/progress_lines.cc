#include "tools/rcmigrate/progress_lines.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

namespace ramcore::rcmigrate {
namespace {

constexpr size_t kColumnsUsual = 80;

size_t columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kColumnsUsual;
  return size.ws_col;
}

}  // namespace

ProgressLines::ProgressLines() : is_on_terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLines::show(const std::vector<std::string>& lines) {
  clear();
  // A line as long as the terminal is wide would take two.
  const size_t most = is_on_terminal_ ? columns() - 1 : std::string::npos;
  for (const std::string& line : lines) std::cerr << line.substr(0, most) << "\n";
  std::cerr << std::flush;
  if (is_on_terminal_) shown_ = lines.size();
}

void ProgressLines::clear() {
  for (; shown_ != 0; --shown_) std::cerr << "\033[1A\033[K";
  std::cerr << std::flush;
}

}  // namespace ramcore::rcmigrate
