#include "runtime/real/private_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace ramcore::runtime {

namespace {

std::error_code lastError() { return {errno, std::generic_category()}; }

// Flushes a directory, so that names that were made in it survive a power loss.
std::error_code flushNamesIn(const std::filesystem::path& directory, int (*flush)(int descriptor)) {
  const int descriptor = ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A directory that this user may write and not read cannot be opened: it is left to the file system.
  if (descriptor < 0) return errno == EACCES ? std::error_code() : lastError();
  std::error_code error = flush(descriptor) == 0 ? std::error_code() : lastError();
  if (error == std::errc::invalid_argument) error = {};  // a file system that does not flush directories
  ::close(descriptor);
  return error;
}

std::error_code makeDirectory(const std::filesystem::path& directory, mode_t mode, int (*flush)(int descriptor)) {
  if (::mkdir(directory.c_str(), mode) == 0) return flushNamesIn(directory.parent_path(), flush);
  const std::error_code error = lastError();
  std::error_code ignored;
  if (std::filesystem::is_directory(directory, ignored)) return {};
  // The name belongs to something else than a directory.
  return error == std::errc::file_exists ? std::make_error_code(std::errc::not_a_directory) : error;
}

std::error_code makeParents(const std::filesystem::path& directory, int (*flush)(int descriptor)) {
  constexpr mode_t kUsualMode = 0777;  // the umask takes from it
  const std::filesystem::path parent = directory.parent_path();
  std::error_code error;
  if (parent.empty() || parent == directory || std::filesystem::is_directory(parent, error)) return {};
  error = makeParents(parent, flush);
  return error ? error : makeDirectory(parent, kUsualMode, flush);
}

}  // namespace

std::error_code makePrivateDirectory(const std::string& path, int (*flush)(int descriptor)) {
  constexpr mode_t kPrivateMode = 0700;
  std::filesystem::path directory(path);
  if (!directory.has_filename()) directory = directory.parent_path();  // "a/b/"
  const std::error_code error = makeParents(directory, flush);
  return error ? error : makeDirectory(directory, kPrivateMode, flush);
}

}  // namespace ramcore::runtime
