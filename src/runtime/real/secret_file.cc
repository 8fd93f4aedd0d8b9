#include "runtime/real/secret_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace ramcore::runtime {

Outcome<std::string> readSecretFile(const std::string& path) {
  if (path.empty()) return std::string();
  constexpr size_t kBytesMin = 16;
  constexpr size_t kBytesMax = 4096;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string secret(kBytesMax + 1, '\0');
  if (file) file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  if (!file.is_open() || file.bad()) {
    return Failure{Status::IoError, "cannot read the secret file " + path + ": " + std::strerror(errno) +
                                        "; give the path of the file that the coordinator was started with"};
  }
  secret.resize(static_cast<size_t>(file.gcount()));
  while (!secret.empty() && std::strchr(" \t\r\n", secret.back()) != nullptr) secret.pop_back();
  if (secret.size() < kBytesMin || secret.size() > kBytesMax) {
    return Failure{Status::BadConfig, "the secret file " + path + " holds " + std::to_string(secret.size()) +
                                          " bytes instead of 16 to 4096; make one with: openssl rand -hex 32"};
  }
  return secret;
}

}  // namespace ramcore::runtime
