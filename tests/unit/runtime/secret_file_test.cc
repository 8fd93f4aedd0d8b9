#include "runtime/real/secret_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "runtime/real/private_directory.h"

namespace ramcore::runtime {
namespace {

class SecretFile : public ::testing::Test {
 protected:
  SecretFile() {
    std::string pattern = std::filesystem::temp_directory_path() / "ramcore-secret-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/secret";
    std::ofstream(path_) << "a secret of this test\n";
    setMode(path_, 0600);
  }
  ~SecretFile() override { std::filesystem::remove_all(folder_); }

  static void setMode(const std::string& path, mode_t mode) { ASSERT_EQ(chmod(path.c_str(), mode), 0); }
  void expectRefused(const std::string& cause, const std::string& remedy) const {
    const auto secret = readSecretFile(path_);
    ASSERT_FALSE(secret.ok());
    EXPECT_EQ(secret.error().status, Status::BadConfig);
    EXPECT_NE(secret.error().message.find(cause), std::string::npos) << secret.error().message;
    EXPECT_NE(secret.error().message.find(remedy), std::string::npos) << secret.error().message;
  }

  std::string folder_;
  std::string path_;
};

TEST_F(SecretFile, OfThisUserAloneIsTaken) {
  for (const mode_t mode : {0600, 0400}) {
    setMode(path_, mode);
    const auto secret = readSecretFile(path_);
    ASSERT_TRUE(secret.ok()) << secret.error().message;
    EXPECT_EQ(*secret, "a secret of this test");
  }
}

TEST_F(SecretFile, ThatOthersMayReadOrWriteIsRefused) {
  for (const mode_t mode : {0640, 0620, 0604, 0602, 0644, 0666, 0660}) {
    setMode(path_, mode);
    expectRefused("may be read or written by others", "chmod 600 " + path_);
  }
}

TEST_F(SecretFile, InADirectoryOfEverybodyIsRefusedUnlessNobodyElseMayReplaceItThere) {
  setMode(folder_, 0777);
  expectRefused("can be replaced by anybody", "chmod o-w");
  setMode(folder_, 01777);  // as /tmp
  EXPECT_TRUE(readSecretFile(path_).ok());
  // A directory further up counts as well.
  std::filesystem::create_directory(folder_ + "/below");
  std::filesystem::rename(path_, folder_ + "/below/secret");
  path_ = folder_ + "/below/secret";
  EXPECT_TRUE(readSecretFile(path_).ok());
  setMode(folder_, 0777);
  expectRefused("can be replaced by anybody", folder_);
}

TEST_F(SecretFile, ALinkIsJudgedByWhereItLeads) {
  const std::string link = folder_ + "/link";
  std::filesystem::create_symlink(path_, link);
  EXPECT_TRUE(readSecretFile(link).ok());
  setMode(path_, 0644);
  EXPECT_FALSE(readSecretFile(link).ok());
}

TEST_F(SecretFile, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  expectRefused("belongs to user 65534", "chown 0");
}

TEST_F(SecretFile, ThatIsADirectoryOrMissingIsNamed) {
  EXPECT_EQ(readSecretFile(folder_).error().status, Status::IoError);
  EXPECT_EQ(readSecretFile(folder_ + "/nothing").error().status, Status::IoError);
  EXPECT_EQ(*readSecretFile(""), "");
}

TEST(PrivateDirectory, IsForThisUserAndItsParentsAreAsUsual) {
  std::string pattern = std::filesystem::temp_directory_path() / "ramcore-private-XXXXXX";
  const std::string folder = mkdtemp(pattern.data());
  const mode_t usual = umask(022);
  const std::string path = folder + "/a/b/";
  EXPECT_FALSE(makePrivateDirectory(path));
  struct stat made{};
  ASSERT_EQ(stat(path.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0700u);
  ASSERT_EQ(stat((folder + "/a").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0755u);
  // A directory that exists stays as it is.
  ASSERT_EQ(chmod(path.c_str(), 0750), 0);
  EXPECT_FALSE(makePrivateDirectory(path));
  ASSERT_EQ(stat(path.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0750u);
  std::ofstream(folder + "/file") << "x";
  EXPECT_TRUE(makePrivateDirectory(folder + "/file"));
  EXPECT_TRUE(makePrivateDirectory(folder + "/file/below"));
  umask(usual);
  std::filesystem::remove_all(folder);
}

std::vector<std::string>& flushedDirectories() {
  static std::vector<std::string> flushed;
  return flushed;
}

TEST(PrivateDirectory, ItsNameAndThoseOfItsParentsAreFlushed) {
  std::string pattern = std::filesystem::temp_directory_path() / "ramcore-private-XXXXXX";
  const std::string folder = std::filesystem::canonical(mkdtemp(pattern.data()));
  const auto note = [](int descriptor) {
    flushedDirectories().push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)));
    return 0;
  };
  flushedDirectories().clear();
  EXPECT_FALSE(makePrivateDirectory(folder + "/a/b/c", note));
  EXPECT_EQ(flushedDirectories(), (std::vector<std::string>{folder, folder + "/a", folder + "/a/b"}));
  flushedDirectories().clear();
  EXPECT_FALSE(makePrivateDirectory(folder + "/a/b/c", note));
  EXPECT_EQ(flushedDirectories(), std::vector<std::string>{}) << "all are there";
  const auto fail = [](int) {
    errno = EIO;
    return -1;
  };
  EXPECT_EQ(makePrivateDirectory(folder + "/a/d", fail), std::errc::io_error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ramcore::runtime
