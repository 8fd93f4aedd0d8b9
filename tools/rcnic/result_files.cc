#include "tools/rcnic/result_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "tools/rcnic/analysis/results_csv.h"

namespace ramcore::rcnic {
namespace {

Failure cannotWrite(const std::string& path) {
  return Failure{Status::IoError, "cannot write '" + path + "': " + std::strerror(errno) +
                                      "; name a place in a directory that can be written and has space"};
}

bool writeAll(int descriptor, const std::string& content) {
  for (size_t done = 0; done < content.size();) {
    const ssize_t written = ::write(descriptor, content.data() + done, content.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

Outcome<bool> writeFile(const std::string& path, const std::string& content) {
  // The new content is written to a file in the same directory, so that the renaming is atomic. It is flushed before
  // the renaming, so that a loss of power, too, leaves the old file or the new one.
  const std::string partial = path + ".partial";
  const int descriptor = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return cannotWrite(path);
  const bool is_written = writeAll(descriptor, content) && ::fsync(descriptor) == 0;
  const int error = errno;
  ::close(descriptor);
  if (is_written && std::rename(partial.c_str(), path.c_str()) == 0) return true;
  if (!is_written) errno = error;
  Failure failure = cannotWrite(path);
  ::unlink(partial.c_str());
  return failure;
}

Outcome<bool> makeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return true;
  return Failure{Status::IoError,
                 "cannot make the directory '" + path + "': " + error.message() + "; name one that can be made"};
}

Outcome<std::string> readFile(const std::string& path, const std::string& remedy) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad() || std::filesystem::is_directory(path)) {
    return Failure{Status::IoError,
                   "cannot read '" + path + "': " + std::strerror(file.is_open() ? EISDIR : errno) + "; " + remedy};
  }
  return text;
}

Outcome<std::vector<Sample>> readResults(const std::string& path) {
  const auto text = readFile(path, "give a file that rcnic run --csv has written");
  if (!text.ok()) return text.error();
  return parseCsv(*text, path);
}

}  // namespace ramcore::rcnic
