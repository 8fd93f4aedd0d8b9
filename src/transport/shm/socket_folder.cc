#include "transport/shm/socket_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "transport/descriptor.h"
#include "transport/locator.h"
#include "transport/shm/unix_socket.h"

namespace ramcore::transport::shm {
namespace {

constexpr std::string_view kPrefix = "ramcore-";
constexpr std::string_view kDigits = "0123456789abcdef";
constexpr size_t kDigitCount = 16;
constexpr std::string_view kLockSuffix = ".lock";

/// What nobody but the owner may do with a folder.
enum class Private : mode_t { Write = 0022, All = 0077 };

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string quoted(const std::string& folder) { return "'" + folder + "'"; }

Failure unusable(const std::string& folder, const std::string& why) {
  return Failure{Status::BadConfig, quoted(folder) + " " + why};
}

// A line with locators has spaces between them, and options behind a question mark.
bool isPlain(const std::string& folder) {
  return folder.starts_with('/') && std::ranges::all_of(folder, [](char c) { return c > ' ' && c < 0x7f && c != '?'; });
}

// `flags` of open(2). Looked at through a descriptor: between two looks at a name somebody could exchange what it
// names.
Outcome<std::string> check(const std::string& folder, Private is_private, int flags) {
  if (!isPlain(folder)) return unusable(folder, "is no absolute path of printable characters, without spaces and '?'");
  const auto longest = Locator::parse("shm://" + folder + "/" + std::string(kPrefix) + std::string(kDigitCount, '0'));
  if (!longest.ok()) return unusable(folder, "is too long for the path of a socket");
  const Descriptor opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | flags));
  struct stat found{};
  if (!opened || ::fstat(opened.get(), &found) != 0) {
    return unusable(folder,
                    errno == ENOTDIR ? "is no directory" : std::string("cannot be used: ") + std::strerror(errno));
  }
  if (found.st_uid != ::geteuid()) {
    return unusable(folder, "belongs to user " + std::to_string(found.st_uid) + ", not to user " +
                                std::to_string(::geteuid()) + " of this process");
  }
  if ((found.st_mode & static_cast<mode_t>(is_private)) != 0) {
    return unusable(folder, is_private == Private::All ? "can be entered by others" : "can be written by others");
  }
  return folder;
}

// Whoever was here first may have put something else there.
Outcome<std::string> make(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return unusable(folder, std::string("cannot be made: ") + std::strerror(errno));
  }
  return check(folder, Private::All, O_NOFOLLOW);
}

bool isOurs(std::string_view name) {
  return name.size() == kPrefix.size() + kDigitCount && name.starts_with(kPrefix) &&
         name.find_first_not_of(kDigits, kPrefix.size()) == std::string_view::npos;
}

}  // namespace

SocketFolderPlaces SocketFolderPlaces::ofEnvironment() {
  // A service may have several.
  std::string service = variable("RUNTIME_DIRECTORY");
  service.resize(std::min(service.find(':'), service.size()));
  std::string temporary = variable("TMPDIR");
  if (temporary.empty()) temporary = "/tmp";
  while (temporary.size() > 1 && temporary.ends_with('/')) temporary.pop_back();
  return {.service_folder = std::move(service),
          .user_folder = variable("XDG_RUNTIME_DIR"),
          .temporary_folder = std::move(temporary)};
}

Outcome<std::string> openSocketFolder(const SocketFolderPlaces& places) {
  std::string why;
  const auto notes = [&why](Outcome<std::string>& outcome) {
    if (!outcome.ok()) why += (why.empty() ? "" : "; ") + outcome.error().message;
    return outcome.ok();
  };
  // Whoever has set these two answers for the way there, links included.
  if (!places.service_folder.empty()) {
    auto service = check(places.service_folder, Private::Write, 0);
    if (notes(service)) return service;
  }
  if (!places.user_folder.empty()) {
    auto user = check(places.user_folder, Private::Write, 0);
    if (user.ok()) user = make(places.user_folder + "/ramcore");
    if (notes(user)) return user;
  }
  auto temporary = make(places.temporary_folder + "/ramcore-" + std::to_string(::geteuid()));
  if (notes(temporary)) return temporary;
  return Failure{Status::BadConfig, "there is no folder for its socket: " + why +
                                        "; set XDG_RUNTIME_DIR to a directory that only this user can write, or name a "
                                        "path with --listen shm:///PATH"};
}

std::string newSocketPath(const std::string& folder, runtime::Entropy& entropy) {
  std::string path = folder + "/" + std::string(kPrefix);
  uint64_t number = entropy.next();
  for (size_t i = 0; i < kDigitCount; ++i, number >>= 4) path += kDigits[number & 0xf];
  return path;
}

uint32_t removeDeadSockets(const std::string& folder) {
  // A process that dies between two steps of its begin or its end leaves one of the two files.
  std::set<std::string> names;
  std::error_code failed;
  for (auto entry = std::filesystem::directory_iterator(folder, failed);
       !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    if (name.ends_with(kLockSuffix)) name.resize(name.size() - kLockSuffix.size());
    if (isOurs(name)) names.insert(std::move(name));
  }
  uint32_t count = 0;
  for (const std::string& name : names) count += removeDeadSocket(folder + "/" + name) ? 1 : 0;
  return count;
}

}  // namespace ramcore::transport::shm
