#pragma once

#include <cstddef>
#include <string>

namespace ramcore::rc {

/// Cuts what is read from a file descriptor into lines, and tells the end of the input from an error. Holds one line
/// and 64 KiB.
class LineReader {
 public:
  enum class Next {
    Line,
    End,
    TooLong,  ///< the line has more than line_bytes_max bytes; reading cannot go on
    Error,    ///< errno says which; what was read of the line is not a whole line
  };
  /// @param fd  borrowed.
  LineReader(int fd, size_t line_bytes_max);
  /// The next line, without its line end; the last line of the input may lack one.
  Next next(std::string& line);

 private:
  const int fd_;
  const size_t line_bytes_max_;
  std::string buffer_;
  size_t at_ = 0;
  size_t filled_ = 0;
};

}  // namespace ramcore::rc
