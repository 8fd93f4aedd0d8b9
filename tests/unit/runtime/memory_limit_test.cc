#include "runtime/real/memory_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace ramcore::runtime {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

/// The files that the system has for this, in a folder of the test.
class MemoryLimits : public ::testing::Test {
 protected:
  MemoryLimits() {
    std::string pattern = std::filesystem::temp_directory_path() / "ramcore-memory-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    put("/proc/meminfo", "MemTotal:       8388608 kB\nMemFree: 1 kB\nMemAvailable:    4194304 kB\n");
  }
  ~MemoryLimits() override { std::filesystem::remove_all(folder_); }

  void put(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(folder_ + path).parent_path());
    std::ofstream(folder_ + path) << content;
  }
  void putV2(const std::string& inside, const std::string& shown = "/") const {
    put("/proc/self/cgroup", "0::" + inside + "\n");
    put("/proc/self/mountinfo", "25 30 0:23 / /proc rw - proc proc rw\n30 24 0:26 " + shown +
                                    " /groups rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  void putV1(const std::string& inside) const {
    put("/proc/self/cgroup", "9:name=systemd:/other\n4:cpu,memory:" + inside + "\n0::/\n");
    put("/proc/self/mountinfo",
        "31 24 0:27 / /v1/cpu rw - cgroup cgroup rw,cpu\n32 24 0:28 / /v1/memory rw - cgroup cgroup rw,memory\n");
  }
  MemoryLimit read() const { return MemoryLimit::read(folder_ + "/proc", folder_); }

  std::string folder_;
};

TEST_F(MemoryLimits, WithoutGroupsTheMachineIsTheLimit) {
  const MemoryLimit limit = read();
  EXPECT_EQ(limit.bytes, 8192 * kMegabyte);
  EXPECT_EQ(limit.free_bytes, 4096 * kMegabyte);
  EXPECT_EQ(limit.who, "this machine");
}

TEST_F(MemoryLimits, TheOwnGroupOfVersion2Counts) {
  putV2("/system.slice/x.service");
  put("/groups/system.slice/x.service/memory.max", "209715200\n");
  put("/groups/system.slice/x.service/memory.current", "104857600\n");
  put("/groups/system.slice/x.service/memory.stat", "anon 1\ninactive_file 52428800\n");
  const MemoryLimit limit = read();
  EXPECT_EQ(limit.bytes, 200 * kMegabyte);
  EXPECT_EQ(limit.free_bytes, 150 * kMegabyte) << "what is only cached is free";
  EXPECT_EQ(limit.who, "the control group /system.slice/x.service");
}

TEST_F(MemoryLimits, GroupsAboveCountToo) {
  putV2("/pod/container");
  put("/groups/pod/container/memory.max", "max\n");
  put("/groups/pod/memory.max", "536870912\n");
  EXPECT_EQ(read().bytes, 512 * kMegabyte);
  EXPECT_EQ(read().who, "the control group /pod");
  put("/groups/pod/memory.high", "268435456\n");
  EXPECT_EQ(read().bytes, 256 * kMegabyte) << "beyond it a process hardly gets on";
}

TEST_F(MemoryLimits, AContainerSeesItsOwnPartOnly) {
  putV2("/docker/abc", "/docker/abc");
  put("/groups/memory.max", "314572800\n");
  EXPECT_EQ(read().bytes, 300 * kMegabyte);
  // In a name space of its own the process sees the root as its path.
  putV2("/");
  EXPECT_EQ(read().bytes, 300 * kMegabyte);
}

TEST_F(MemoryLimits, TheMemoryControllerOfVersion1Counts) {
  putV1("/batch/job");
  put("/v1/memory/batch/job/memory.limit_in_bytes", "9223372036854771712\n");  // no limit
  EXPECT_EQ(read().bytes, 8192 * kMegabyte);
  put("/v1/memory/batch/memory.limit_in_bytes", "104857600\n");
  put("/v1/memory/batch/memory.usage_in_bytes", "41943040\n");
  put("/v1/memory/batch/memory.stat", "inactive_file 1\ntotal_inactive_file 20971520\n");
  put("/v1/cpu/batch/job/memory.limit_in_bytes", "1\n");  // of another controller
  const MemoryLimit limit = read();
  EXPECT_EQ(limit.bytes, 100 * kMegabyte);
  EXPECT_EQ(limit.free_bytes, 80 * kMegabyte);
}

TEST_F(MemoryLimits, WhatMakesNoSenseIsNoLimit) {
  putV2("/x");
  put("/groups/x/memory.max", "many\n");
  EXPECT_EQ(read().bytes, 8192 * kMegabyte);
  put("/proc/self/cgroup", "nonsense\n0:\n");
  put("/proc/self/mountinfo", "nonsense - \n - cgroup2\n");
  EXPECT_EQ(read().bytes, 8192 * kMegabyte);
}

TEST(MemoryLimit, OfThisProcessIsOneOfThisMachine) {
  const MemoryLimit limit = MemoryLimit::ofThisProcess();
  EXPECT_GT(limit.bytes, kMegabyte);
  EXPECT_LE(limit.free_bytes, limit.bytes);
}

}  // namespace
}  // namespace ramcore::runtime
