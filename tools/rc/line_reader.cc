#include "tools/rc/line_reader.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ramcore::rc {
namespace {
constexpr size_t kBufferBytes = size_t{64} << 10;
}  // namespace

LineReader::LineReader(int fd, size_t line_bytes_max)
    : fd_(fd), line_bytes_max_(line_bytes_max), buffer_(kBufferBytes, '\0') {}

LineReader::Next LineReader::next(std::string& line) {
  line.clear();
  while (true) {
    if (at_ == filled_) {
      const ssize_t got = ::read(fd_, buffer_.data(), buffer_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Next::Error;
      at_ = 0;
      filled_ = static_cast<size_t>(got);
      if (got == 0) return line.empty() ? Next::End : Next::Line;
    }
    const char* const begin = buffer_.data() + at_;
    const auto* const end = static_cast<const char*>(std::memchr(begin, '\n', filled_ - at_));
    const size_t bytes = end != nullptr ? static_cast<size_t>(end - begin) : filled_ - at_;
    if (line.size() + bytes > line_bytes_max_) return Next::TooLong;
    line.append(begin, bytes);
    at_ += bytes;
    if (end == nullptr) continue;
    ++at_;
    return Next::Line;
  }
}

}  // namespace ramcore::rc
