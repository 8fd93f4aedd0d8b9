#include "runtime/real/private_directory.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

namespace ramcore::runtime {

std::error_code makePrivateDirectory(const std::string& path) {
  std::filesystem::path directory(path);
  if (!directory.has_filename()) directory = directory.parent_path();  // "a/b/"
  std::error_code error;
  if (directory.has_parent_path()) std::filesystem::create_directories(directory.parent_path(), error);
  if (error) return error;
  if (::mkdir(directory.c_str(), 0700) == 0) return {};
  error = std::error_code(errno, std::generic_category());
  std::error_code ignored;
  if (std::filesystem::is_directory(directory, ignored)) return {};
  // Something else has the name.
  return error == std::errc::file_exists ? std::make_error_code(std::errc::not_a_directory) : error;
}

}  // namespace ramcore::runtime
