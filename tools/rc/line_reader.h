#pragma once

#include <cstddef>
#include <string>

namespace ramcore::rc {

/// Cuts what comes out of a file descriptor into lines, and knows an end from an error. Holds one line and 64 KiB.
class LineReader {
 public:
  enum class Next {
    Line,
    End,
    TooLong,  ///< the line has more than line_bytes_max bytes; there is no going on
    Error,    ///< errno says which; what was read before is no whole line
  };
  /// @param fd  borrowed.
  LineReader(int fd, size_t line_bytes_max);
  /// The next line, without its end; the last one may lack it.
  Next next(std::string& line);

 private:
  const int fd_;
  const size_t line_bytes_max_;
  std::string buffer_;
  size_t at_ = 0;
  size_t filled_ = 0;
};

}  // namespace ramcore::rc
