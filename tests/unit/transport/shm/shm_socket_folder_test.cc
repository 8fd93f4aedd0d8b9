#include "transport/shm/socket_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "transport/locator.h"
#include "transport/shm/unix_socket.h"

namespace ramcore::transport::shm {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class ShmSocketFolder : public ::testing::Test {
 protected:
  ShmSocketFolder() {
    char path[] = "/tmp/rcfolderXXXXXX";
    EXPECT_NE(::mkdtemp(path), nullptr);
    top = path;
  }
  ~ShmSocketFolder() override { std::filesystem::remove_all(top); }

  std::string make(const std::string& name, mode_t mode = 0700) {
    const std::string path = top + "/" + name;
    EXPECT_TRUE(std::filesystem::create_directories(path));
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  // A folder that is somebody else's.
  std::string foreign() {
    if (::geteuid() != 0) return "/usr";
    const std::string path = make("foreign");
    EXPECT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    return path;
  }
  std::string below(const std::string& temporary) const {
    return temporary + "/ramcore-" + std::to_string(::geteuid());
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(top)) names.insert(entry.path().filename().string());
    return names;
  }
  // Leaves a socket as a killed process does: the lock is gone, the file is not.
  void leaveDead(const std::string& path) {
    const auto listening = ListeningSocket::open(path);
    ASSERT_TRUE(listening.ok());
    const std::string kept = top + "/kept";
    ASSERT_EQ(::rename(path.c_str(), kept.c_str()), 0);
    ASSERT_EQ(::rename((path + ".lock").c_str(), (kept + ".lock").c_str()), 0);
    dead_socket = kept;
    dead_path = path;
  }
  void putDeadBack() {
    ASSERT_EQ(::rename(dead_socket.c_str(), dead_path.c_str()), 0);
    ASSERT_EQ(::rename((dead_socket + ".lock").c_str(), (dead_path + ".lock").c_str()), 0);
  }

  std::string top;
  std::string dead_socket;
  std::string dead_path;
  runtime::SeededEntropy entropy{1};
};

TEST_F(ShmSocketFolder, TheBestPlaceIsTaken) {
  const SocketFolderPlaces places{
      .service_folder = make("service", 0755), .user_folder = make("user"), .temporary_folder = make("tmp", 01777)};
  EXPECT_EQ(openSocketFolder(places).path, places.service_folder);
  EXPECT_EQ(openSocketFolder(
                {.service_folder = "", .user_folder = places.user_folder, .temporary_folder = places.temporary_folder})
                .path,
            places.user_folder + "/ramcore");
  const SocketFolderPlaces last{.service_folder = "", .user_folder = "", .temporary_folder = places.temporary_folder};
  for (int again = 0; again < 2; ++again) {
    const auto folder = openSocketFolder(last);
    EXPECT_EQ(folder.path, below(last.temporary_folder)) << folder.why_not;
    EXPECT_EQ(folder.passed_over, "");
    struct stat status{};
    ASSERT_EQ(::stat(folder.path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0700u);
  }
}

TEST_F(ShmSocketFolder, APlaceThatWillNotDoIsPassedOver) {
  const std::string temporary = make("tmp");
  for (const std::string& bad : {foreign(), make("open", 0777), top + "/nowhere", std::string("relative"),
                                 make("with space"), make("with?question"), make(std::string(90 - top.size(), 'l'))}) {
    for (const bool is_service : {false, true}) {
      const auto folder = openSocketFolder({.service_folder = is_service ? bad : "",
                                            .user_folder = is_service ? "" : bad,
                                            .temporary_folder = temporary});
      EXPECT_EQ(folder.path, below(temporary)) << bad << ": " << folder.why_not;
      EXPECT_THAT(folder.passed_over, HasSubstr("'" + bad)) << bad;
    }
  }
}

TEST_F(ShmSocketFolder, WhatSomebodyHasPutThereIsRefused) {
  const std::string temporary = make("tmp", 01777);
  const SocketFolderPlaces places{.service_folder = "", .user_folder = "", .temporary_folder = temporary};
  const std::string folder = below(temporary);
  const auto expectRefused = [&](const std::string& why, bool is_disturbed) {
    const auto opened = openSocketFolder(places);
    EXPECT_EQ(opened.path, "") << why;
    EXPECT_THAT(opened.why_not, HasSubstr("'" + folder + "' " + why));
    EXPECT_THAT(opened.why_not, HasSubstr("set XDG_RUNTIME_DIR"));
    EXPECT_EQ(opened.is_disturbed, is_disturbed) << why;
  };
  std::filesystem::create_directory_symlink(make("mine"), folder);
  expectRefused("is a symbolic link", true);
  std::filesystem::remove(folder);
  std::filesystem::create_symlink(top + "/nowhere", folder);
  expectRefused("is a symbolic link", true);
  std::filesystem::remove(folder);
  std::ofstream(folder) << "a file";
  expectRefused("is no directory", true);
  std::filesystem::remove(folder);
  std::filesystem::create_directory(folder);
  ASSERT_EQ(::chmod(folder.c_str(), 0750), 0);
  expectRefused("can be entered by others (chmod 700 " + folder + ")", false);
  ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  EXPECT_EQ(openSocketFolder(places).path, folder);
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(folder.c_str(), 65534, 65534), 0);
  expectRefused("belongs to user 65534", true);
}

TEST_F(ShmSocketFolder, ATemporaryFolderWhereOthersExchangeFilesIsRefused) {
  for (const mode_t mode : {0777, 0770}) {
    const std::string temporary = make("tmp" + std::to_string(mode), mode);
    const auto opened = openSocketFolder({.service_folder = "", .user_folder = "", .temporary_folder = temporary});
    EXPECT_EQ(opened.path, "");
    EXPECT_THAT(opened.why_not, HasSubstr("'" + temporary + "' can be written by others and has no sticky bit"));
    EXPECT_FALSE(opened.is_disturbed);
    EXPECT_FALSE(std::filesystem::exists(below(temporary)));
  }
}

TEST_F(ShmSocketFolder, SaysHowLongAPathMayBe) {
  constexpr size_t kMax = 75;  // and 25 for the name of a socket
  for (const size_t bytes : {kMax, kMax + 1}) {
    const std::string service = make(std::string(bytes - top.size() - 1, 'l'));
    ASSERT_EQ(service.size(), bytes);
    const auto opened = openSocketFolder({.service_folder = service, .user_folder = "", .temporary_folder = top});
    EXPECT_EQ(opened.path, bytes == kMax ? service : below(top));
    if (bytes > kMax) EXPECT_THAT(opened.passed_over, HasSubstr("it has 76 bytes and may have 75"));
    EXPECT_EQ(Locator::parse("shm://" + newSocketPath(service, entropy)).ok(), bytes == kMax);
  }
}

TEST_F(ShmSocketFolder, TheEnvironmentSaysWhere) {
  ::setenv("RUNTIME_DIRECTORY", "/run/a:/run/b", 1);
  ::setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  ::setenv("TMPDIR", "/var/tmp/", 1);
  const SocketFolderPlaces set = SocketFolderPlaces::ofEnvironment();
  EXPECT_EQ(set.service_folder, "/run/a");
  EXPECT_EQ(set.user_folder, "/run/user/7");
  EXPECT_EQ(set.temporary_folder, "/var/tmp");
  ::setenv("RUNTIME_DIRECTORY", "/run//a/:/run/b", 1);
  ::setenv("XDG_RUNTIME_DIR", "/run/user/7//", 1);
  ::setenv("TMPDIR", "/", 1);
  const SocketFolderPlaces slashes = SocketFolderPlaces::ofEnvironment();
  EXPECT_EQ(slashes.service_folder, "/run/a");
  EXPECT_EQ(slashes.user_folder, "/run/user/7");
  EXPECT_EQ(slashes.temporary_folder, "/");
  EXPECT_TRUE(newSocketPath("/", entropy).starts_with("/ramcore-"));
  for (const char* name : {"RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "TMPDIR"}) ::unsetenv(name);
  const SocketFolderPlaces unset = SocketFolderPlaces::ofEnvironment();
  EXPECT_EQ(unset.service_folder, "");
  EXPECT_EQ(unset.user_folder, "");
  EXPECT_EQ(unset.temporary_folder, "/tmp");
}

TEST_F(ShmSocketFolder, PathsDifferAndAreLocators) {
  std::set<std::string> paths;
  for (int i = 0; i < 100; ++i) {
    const std::string path = newSocketPath(top, entropy);
    EXPECT_TRUE(path.starts_with(top + "/ramcore-"));
    const auto locator = Locator::parse("shm://" + path);
    ASSERT_TRUE(locator.ok()) << locator.error().message;
    EXPECT_EQ(locator->path, path);
    paths.insert(path);
  }
  EXPECT_EQ(paths.size(), 100u);
}

TEST_F(ShmSocketFolder, SocketsOfTheDeadAreRemovedAndNoOthers) {
  const std::string living = newSocketPath(top, entropy);
  const auto listening = ListeningSocket::open(living);
  ASSERT_TRUE(listening.ok());
  // A program that cleans up temporary files may remove the lock file, which looks old.
  const std::string unlocked = newSocketPath(top, entropy);
  const auto listening_too = ListeningSocket::open(unlocked);
  ASSERT_TRUE(listening_too.ok());
  ASSERT_EQ(::unlink((unlocked + ".lock").c_str()), 0);
  const std::string dead = newSocketPath(top, entropy);
  leaveDead(dead);
  putDeadBack();
  const std::string locked_only = newSocketPath(top, entropy);
  std::ofstream(locked_only + ".lock") << "";
  const std::string file = newSocketPath(top, entropy);
  std::ofstream(file) << "no socket";
  std::ofstream(top + "/other") << "";
  std::ofstream(top + "/ramcore-other") << "";

  const auto name = [&](const std::string& path) { return path.substr(top.size() + 1); };
  ASSERT_EQ(files().size(), 9u);
  EXPECT_EQ(removeDeadSockets(top), 1u);
  EXPECT_THAT(files(), UnorderedElementsAre(name(living), name(living) + ".lock", name(unlocked), name(file), "other",
                                            "ramcore-other"));
  EXPECT_TRUE(connectTo(living).ok());
  EXPECT_TRUE(connectTo(unlocked).ok());
  EXPECT_EQ(removeDeadSockets(top), 0u);
  EXPECT_EQ(removeDeadSockets(top + "/nowhere"), 0u);
}

}  // namespace
}  // namespace ramcore::transport::shm
