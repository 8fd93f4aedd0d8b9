#include "transport/shm/socket_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/result.h"
#include "transport/os/descriptor.h"
#include "transport/shm/unix_socket.h"

namespace ramcore::transport::shm {
namespace {

constexpr std::string_view kPrefix = "ramcore-";
constexpr std::string_view kDigits = "0123456789abcdef";
constexpr size_t kDigitCount = 16;
constexpr std::string_view kLockSuffix = ".lock";
constexpr size_t kLocatorPathBytesMax = 100;  // as Locator::parse() has it
constexpr size_t kFolderBytesMax = kLocatorPathBytesMax - 1 - kPrefix.size() - kDigitCount;

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

// True if the folder can stand in a line of locators, which have spaces between them and options behind a question
// mark.
bool isPlain(const std::string& folder) {
  return folder.starts_with('/') && std::ranges::all_of(folder, [](char c) { return c > ' ' && c < 0x7f && c != '?'; });
}

std::optional<Failure> checkName(const std::string& folder) {
  if (!isPlain(folder)) return unusable(folder, "is no absolute path of printable characters, without spaces and '?'");
  if (folder.size() > kFolderBytesMax) {
    return unusable(folder, "is too long for the path of a socket: it has " + std::to_string(folder.size()) +
                                " bytes and may have " + std::to_string(kFolderBytesMax));
  }
  return std::nullopt;
}

/// What stands in the way of a folder that could be ours.
enum class Obstacle : uint8_t { None, Ours, SomebodyElses };

// `flags` of open(2). The folder is looked at through a descriptor: between two looks at its name another user could
// exchange it.
Outcome<std::string> check(const std::string& folder, Private is_private, int flags, Obstacle& obstacle) {
  obstacle = Obstacle::Ours;
  if (auto failure = checkName(folder)) return *std::move(failure);
  const Descriptor opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | flags));
  struct stat found{};
  if (!opened || ::fstat(opened.get(), &found) != 0) {
    if (errno != ENOTDIR) return unusable(folder, std::string("cannot be used: ") + std::strerror(errno));
    obstacle = Obstacle::SomebodyElses;
    const bool is_link = (flags & O_NOFOLLOW) != 0 && ::lstat(folder.c_str(), &found) == 0 && S_ISLNK(found.st_mode);
    return unusable(folder, is_link ? "is a symbolic link" : "is no directory");
  }
  if (found.st_uid != ::geteuid()) {
    obstacle = Obstacle::SomebodyElses;
    return unusable(folder, "belongs to user " + std::to_string(found.st_uid) + ", not to user " +
                                std::to_string(::geteuid()) + " of this process");
  }
  if ((found.st_mode & static_cast<mode_t>(is_private)) != 0) {
    return unusable(folder, is_private == Private::All ? "can be entered by others (chmod 700 " + folder + ")"
                                                       : "can be written by others (chmod go-w " + folder + ")");
  }
  obstacle = Obstacle::None;
  return folder;
}

// Makes the folder, and checks it in any case: another user may have put something else there first.
Outcome<std::string> make(const std::string& folder, Obstacle& obstacle) {
  obstacle = Obstacle::Ours;
  if (auto failure = checkName(folder)) return *std::move(failure);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return unusable(folder, std::string("cannot be made: ") + std::strerror(errno));
  }
  return check(folder, Private::All, O_NOFOLLOW, obstacle);
}

// A folder is of no use if others may exchange what this user makes in it.
std::optional<Failure> checkTemporary(const std::string& folder) {
  struct stat found{};
  if (::stat(folder.c_str(), &found) != 0) {
    return unusable(folder, std::string("cannot be used: ") + std::strerror(errno));
  }
  if ((found.st_mode & static_cast<mode_t>(Private::Write)) != 0 && (found.st_mode & S_ISVTX) == 0) {
    return unusable(folder, "can be written by others and has no sticky bit, so they could exchange what is in it");
  }
  return std::nullopt;
}

// Writes a path in one way only, because locators are compared as text.
std::string tidy(std::string folder) {
  const auto doubled = std::ranges::unique(folder, [](char a, char b) { return a == '/' && b == '/'; });
  folder.erase(doubled.begin(), doubled.end());
  if (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

std::string below(const std::string& folder, const std::string& name) {
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

bool isOurs(std::string_view name) {
  return name.size() == kPrefix.size() + kDigitCount && name.starts_with(kPrefix) &&
         name.find_first_not_of(kDigits, kPrefix.size()) == std::string_view::npos;
}

}  // namespace

SocketFolderPlaces SocketFolderPlaces::ofEnvironment() {
  // A service may have several folders; the first one is used.
  std::string service = variable("RUNTIME_DIRECTORY");
  service.resize(std::min(service.find(':'), service.size()));
  const std::string temporary = variable("TMPDIR");
  return {.service_folder = tidy(std::move(service)),
          .user_folder = tidy(variable("XDG_RUNTIME_DIR")),
          .temporary_folder = temporary.empty() ? "/tmp" : tidy(temporary)};
}

OpenedFolder openSocketFolder(const SocketFolderPlaces& places) {
  OpenedFolder result;
  Obstacle obstacle = Obstacle::None;
  const auto isTaken = [&result](Outcome<std::string> tried) {
    if (tried.ok()) {
      result.path = std::move(tried).value();
    } else {
      result.passed_over += (result.passed_over.empty() ? "" : "; ") + tried.error().message;
    }
    return !result.path.empty();
  };
  // The environment that names these two is trusted, also with links on the way to them.
  if (!places.service_folder.empty() && isTaken(check(places.service_folder, Private::Write, 0, obstacle))) {
    return result;
  }
  if (!places.user_folder.empty()) {
    auto user = check(places.user_folder, Private::Write, 0, obstacle);
    if (user.ok()) user = make(below(places.user_folder, "ramcore"), obstacle);
    if (isTaken(std::move(user))) return result;
  }
  obstacle = Obstacle::None;
  auto unsafe = checkTemporary(places.temporary_folder);
  auto temporary = unsafe ? Outcome<std::string>(*std::move(unsafe))
                          : make(below(places.temporary_folder, "ramcore-" + std::to_string(::geteuid())), obstacle);
  if (isTaken(std::move(temporary))) return result;
  result.is_disturbed = obstacle == Obstacle::SomebodyElses;
  result.why_not = "there is no folder for its socket: " + std::exchange(result.passed_over, "") +
                   "; set XDG_RUNTIME_DIR to a directory that only this user can write, or name a path with --listen "
                   "shm:///PATH";
  return result;
}

std::string newSocketPath(const std::string& folder, runtime::Entropy& entropy) {
  std::string path = below(folder, std::string(kPrefix));
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
  for (const std::string& name : names) count += removeDeadSocket(below(folder, name)) ? 1 : 0;
  return count;
}

}  // namespace ramcore::transport::shm
