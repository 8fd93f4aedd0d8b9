#include "runtime/real/numa_node.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace ramcore::runtime {
namespace {

/// A directory as the kernel shows its nodes in.
class NumaNodes : public ::testing::Test {
 protected:
  NumaNodes() {
    std::string pattern = (std::filesystem::temp_directory_path() / "numa-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    write("online", "0-1");
  }
  ~NumaNodes() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content << "\n";
  }

  std::filesystem::path root_;
};

TEST_F(NumaNodes, ProcessorsAndMemoryAreRead) {
  write("node1/cpulist", "0-2,8,10-11");
  write("node1/meminfo", "Node 1 MemTotal:       2048 kB\nNode 1 MemFree:        1024 kB");
  const auto node = NumaNode::find(1, root_);
  ASSERT_TRUE(node.ok()) << node.error().message;
  EXPECT_EQ(node->processors(), (std::vector<uint32_t>{0, 1, 2, 8, 10, 11}));
  EXPECT_EQ(node->memoryBytes(), 2u << 20);
}

TEST_F(NumaNodes, OneThatIsNotThereIsRefusedWithThoseThatAre) {
  write("node1/cpulist", "");  // memory without processors
  for (const uint32_t number : {1u, 7u}) {
    const auto node = NumaNode::find(number, root_);
    ASSERT_FALSE(node.ok());
    EXPECT_EQ(node.error().status, Status::BadConfig);
    EXPECT_NE(node.error().message.find("node " + std::to_string(number)), std::string::npos) << node.error().message;
    EXPECT_NE(node.error().message.find("0-1"), std::string::npos) << node.error().message;
  }
}

TEST_F(NumaNodes, AListThatIsNoneNamesNoMoreThanItSays) {
  write("node0/cpulist", "3-");
  EXPECT_EQ(NumaNode::find(0, root_)->processors(), std::vector<uint32_t>{3});
  write("node0/cpulist", "5-99999999999,1");
  EXPECT_EQ(NumaNode::find(0, root_)->processors(), std::vector<uint32_t>{5});
  write("node0/cpulist", "zero");
  EXPECT_FALSE(NumaNode::find(0, root_).ok());
}

TEST_F(NumaNodes, AThreadIsBoundToThoseOfItsProcessorsThatItMayRunOn) {
  std::thread([this] {
    cpu_set_t allowed;
    ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    uint32_t first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    write("node0/cpulist", std::to_string(first) + "," + std::to_string(CPU_SETSIZE - 1));
    const auto bound = NumaNode::find(0, root_)->bindThread();
    if (!bound.ok()) {  // in a container that forbids it: the error has to say so
      EXPECT_EQ(bound.error().status, Status::IoError);
      EXPECT_NE(bound.error().message.find("memory to NUMA node 0"), std::string::npos) << bound.error().message;
      return;
    }
    ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    EXPECT_EQ(CPU_COUNT(&allowed), 1);
    EXPECT_TRUE(CPU_ISSET(first, &allowed));
  }).join();
}

TEST_F(NumaNodes, OneWithoutAProcessorThatTheThreadMayRunOnIsRefused) {
  write("node0/cpulist", std::to_string(CPU_SETSIZE - 1));
  const auto bound = NumaNode::find(0, root_)->bindThread();
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.error().status, Status::BadConfig);
}

}  // namespace
}  // namespace ramcore::runtime
