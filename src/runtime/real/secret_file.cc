#include "runtime/real/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace ramcore::runtime {
namespace {

constexpr size_t kBytesMin = 16;
constexpr size_t kBytesMax = 4096;

Failure cannotRead(const std::string& path) {
  return Failure{Status::IoError, "cannot read the secret file " + path + ": " + std::strerror(errno) +
                                      "; give the path of the file that the coordinator was started with"};
}

// The rule is that of other programs for their keys: the file belongs to this user, without access for others, or to
// root, and then a group may read it.
std::string whatIsWrong(const struct stat& file, const std::string& path) {
  const uid_t self = ::geteuid();
  if (file.st_uid != self && file.st_uid != 0) {
    return "belongs to user " + std::to_string(file.st_uid) + ", who may change it; make it this user's (chown " +
           std::to_string(self) + " " + path + ")";
  }
  const bool is_group_fine = file.st_uid == 0 && self != 0;
  const mode_t forbidden = S_IRWXO | (is_group_fine ? S_IWGRP | S_IXGRP : S_IRWXG);
  if ((file.st_mode & forbidden) != 0) return "may be read or written by others; chmod 600 " + path;
  return {};
}

// A user who may write into a directory may replace the files in it, unless it has the sticky bit, as /tmp.
std::string whatIsWrongAbove(const std::string& path) {
  std::error_code error;
  std::filesystem::path above = std::filesystem::canonical(path, error).parent_path();
  if (error) return {};
  for (;; above = above.parent_path()) {
    struct stat directory{};
    if (::stat(above.c_str(), &directory) == 0 && (directory.st_mode & S_IWOTH) != 0 &&
        (directory.st_mode & S_ISVTX) == 0) {
      return "can be replaced by anybody, who may write into " + above.string() + "; chmod o-w " + above.string() +
             ", or keep the file elsewhere";
    }
    if (above == above.parent_path()) return {};
  }
}

bool readAll(int file, std::string& bytes) {
  size_t count = 0;
  while (count < bytes.size()) {
    const ssize_t got = ::read(file, bytes.data() + count, bytes.size() - count);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    count += static_cast<size_t>(got);
  }
  bytes.resize(count);
  return true;
}

Outcome<std::string> readSecret(int file, const std::string& path) {
  struct stat status{};
  if (::fstat(file, &status) != 0) return cannotRead(path);
  std::string wrong = whatIsWrong(status, path);
  if (wrong.empty() && S_ISREG(status.st_mode)) wrong = whatIsWrongAbove(path);
  if (!wrong.empty() && !S_ISDIR(status.st_mode)) {
    return Failure{Status::BadConfig, "the secret file " + path + " " + wrong};
  }
  std::string secret(kBytesMax + 1, '\0');
  if (!readAll(file, secret)) return cannotRead(path);
  while (!secret.empty() && std::strchr(" \t\r\n", secret.back()) != nullptr) secret.pop_back();
  if (secret.size() < kBytesMin || secret.size() > kBytesMax) {
    return Failure{Status::BadConfig, "the secret file " + path + " holds " + std::to_string(secret.size()) +
                                          " bytes instead of 16 to 4096; make one with: openssl rand -hex 32"};
  }
  return secret;
}

}  // namespace

Outcome<std::string> readSecretFile(const std::string& path) {
  if (path.empty()) return std::string();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return cannotRead(path);
  auto secret = readSecret(file, path);
  ::close(file);
  return secret;
}

}  // namespace ramcore::runtime
