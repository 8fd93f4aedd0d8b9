#include "transport/gather/gather_calibration.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/real/system_clock.h"
#include "transport/registry/registry.h"

namespace ramcore::transport {
namespace {

constexpr GatherLimits kDefaults{.entries_max = 33, .inline_bytes_max = 256, .copy_below_bytes = 256};

GatherCalibration parsed(const std::string& text) {
  auto calibration = GatherCalibration::parse(text, "gather.ini");
  EXPECT_TRUE(calibration.ok()) << calibration.error().message;
  return calibration.ok() ? std::move(calibration).value() : GatherCalibration();
}

std::string failureOf(const std::string& text) {
  const auto calibration = GatherCalibration::parse(text, "gather.ini");
  return calibration.ok() ? "" : calibration.error().message;
}

TEST(GatherCalibration, WithoutAFileEverythingStays) {
  const GatherCalibration nothing;
  const GatherLimits limits = nothing.settle("verbs", "mlx5_0", kDefaults);
  EXPECT_EQ(limits.entries_max, 33u);
  EXPECT_EQ(limits.inline_bytes_max, 256u);
  EXPECT_EQ(limits.copy_below_bytes, 256u);
  EXPECT_FALSE(nothing.knows("verbs", "mlx5_0"));
  EXPECT_TRUE(parsed("").sections().empty());
  EXPECT_TRUE(parsed("# nothing\n\n   \r\n").sections().empty());
}

TEST(GatherCalibration, ADeviceBeatsItsTransportAndThatTheDefaults) {
  const GatherCalibration calibration = parsed(
      "# made by hand\n"
      "[verbs:mlx5_0]\r\n"
      "  copy_below_bytes = 512\n"
      "[verbs]\n"
      "copy_below_bytes=128\n"
      "entries_max =16\n"
      "[tcp]\n"
      "copy_below_bytes = 8192");
  const GatherLimits device = calibration.settle("verbs", "mlx5_0", kDefaults);
  EXPECT_EQ(device.copy_below_bytes, 512u);
  EXPECT_EQ(device.entries_max, 16u);
  EXPECT_EQ(device.inline_bytes_max, 256u);
  EXPECT_EQ(calibration.settle("verbs", "mlx5_1", kDefaults).copy_below_bytes, 128u);
  EXPECT_EQ(calibration.settle("tcp", "", kDefaults).copy_below_bytes, 8192u);
  EXPECT_EQ(calibration.settle("shm", "", kDefaults).copy_below_bytes, 256u);
  EXPECT_TRUE(calibration.knows("verbs", "anything"));
  EXPECT_FALSE(calibration.knows("shm", ""));
  const GatherCalibration one = parsed("[verbs:a]\nentries_max = 2\n");
  EXPECT_TRUE(one.knows("verbs", "a"));
  EXPECT_FALSE(one.knows("verbs", "b"));
}

TEST(GatherCalibration, DevicesMayBePciAddressesAndInterfaces) {
  const GatherCalibration calibration = parsed("[dpdk:0000:81:00.0]\nentries_max = 8\n[dpdk:net_memif-0]\n");
  EXPECT_EQ(calibration.sections().at(0).device, "0000:81:00.0");
  EXPECT_EQ(calibration.settle("dpdk", "0000:81:00.0", kDefaults).entries_max, 8u);
}

TEST(GatherCalibration, ItsTextIsTheSameAgain) {
  GatherCalibration calibration;
  calibration.set({.transport = "verbs",
                   .device = "rxe0",
                   .copy_below_bytes = 1,
                   .inline_bytes_max = GatherCalibration::kInlineBytesMost,
                   .entries_max = GatherCalibration::kEntriesMost});
  calibration.set({.transport = "shm", .device = "", .copy_below_bytes = GatherCalibration::kCopyBelowBytesMost});
  EXPECT_EQ(calibration.text(),
            "[verbs:rxe0]\ncopy_below_bytes = 1\ninline_bytes_max = 4096\nentries_max = 33\n"
            "[shm]\ncopy_below_bytes = 16384\n");
  EXPECT_EQ(parsed(calibration.text()).sections(), calibration.sections());
  calibration.set({.transport = "shm", .device = "", .copy_below_bytes = 7});
  ASSERT_EQ(calibration.sections().size(), 2u);
  EXPECT_EQ(calibration.sections()[1].copy_below_bytes, 7u);
}

TEST(GatherCalibration, RangesHaveEndsThatAreTaken) {
  EXPECT_EQ(failureOf("[verbs]\ncopy_below_bytes = 1\ninline_bytes_max = 0\nentries_max = 2\n"), "");
  EXPECT_EQ(failureOf("[verbs]\ncopy_below_bytes = 16384\ninline_bytes_max = 4096\nentries_max = 33\n"), "");
  for (const char* line : {"copy_below_bytes = 0", "copy_below_bytes = 16385", "inline_bytes_max = 4097",
                           "entries_max = 1", "entries_max = 34", "entries_max = 4294967298"}) {
    const std::string failure = failureOf(std::string("[verbs]\n") + line + "\n");
    EXPECT_TRUE(failure.starts_with("gather.ini:2: '")) << line << ": " << failure;
    EXPECT_NE(failure.find("give a whole number from "), std::string::npos) << failure;
  }
}

TEST(GatherCalibration, WhatMakesNoSenseIsAnErrorWithLineCauseAndRemedy) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"entries_max = 4\n", "gather.ini:1: entries_max stands in no section; write "},
      {"\n[verbs\n", "gather.ini:2: the section has no end; write "},
      {"[rdma]\n", "gather.ini:1: 'rdma' is no transport; sections are "},
      {"[]\n", "gather.ini:1: '' is no transport; "},
      {"[tcp:eth0]\n", "gather.ini:1: tcp has no devices; write [tcp]"},
      {"[verbs:]\n", "gather.ini:1: '' is no name of a device; "},
      {"[verbs:a b]\n", "gather.ini:1: 'a b' is no name of a device; "},
      {"[verbs:" + std::string(65, 'a') + "]\n",
       "gather.ini:1: '" + std::string(65, 'a') + "' is no name of a device; "},
      {"[verbs:a]\n[verbs]\n[verbs:a]\n", "gather.ini:3: [verbs:a] is there already; keep "},
      {"[verbs]\nentries_max\n", "gather.ini:2: 'entries_max' is neither a section nor a value; write "},
      {"[verbs]\ncopy_below = 3\n", "gather.ini:2: there is no 'copy_below'; keys are "},
      {"[verbs]\nentries_max = 4\n# \nentries_max = 4\n", "gather.ini:4: entries_max is there already; keep "},
      {"[tcp]\ninline_bytes_max = 4\n",
       "gather.ini:2: tcp has no descriptors, so inline_bytes_max says nothing to it; "},
      {"[verbs]\nentries_max = \n", "gather.ini:2: '' is no value of entries_max; give "},
      {"[verbs]\nentries_max = 4 # four\n", "gather.ini:2: '4 # four' is no value of entries_max; give "},
      {"[verbs]\nentries_max = -4\n", "gather.ini:2: '-4' is no value of entries_max; give "},
      {"[verbs]\nentries_max = 0x4\n", "gather.ini:2: '0x4' is no value of entries_max; give "},
      {std::string(GatherCalibration::kTextBytesMax, '\n') + "#", "gather.ini:1: the file has 65537 bytes, more than "},
  };
  for (const auto& [text, failure] : wrong) {
    EXPECT_TRUE(failureOf(text).starts_with(failure)) << failureOf(text) << "\nand not\n" << failure;
  }
}

TEST(GatherCalibration, ReachesTheTransportsThatCopyEverything) {
  runtime::SystemClock clock;
  runtime::SystemEntropy entropy;
  const Identity identity{.role = Role::Client, .id = 0, .cluster_name = "test", .secret = {}};
  TransportChoices choices;
  choices.verbs = TransportChoices::Wanted::No;
  const auto borrowFrom = [&](std::string_view name) {
    auto set = TransportSet::open(choices, {.clock = clock, .entropy = entropy, .trace = silentTrace()}, identity);
    EXPECT_TRUE(set.ok());
    uint32_t bytes = 0;
    for (const Endpoint* endpoint : (*set)->endpoints()) {
      if (endpoint->limits().name == name) bytes = endpoint->limits().zero_copy_bytes_min;
    }
    return bytes;
  };
  EXPECT_EQ(borrowFrom("tcp"), 4097u);
  EXPECT_EQ(borrowFrom("shm"), 4097u);
  choices.gather = parsed("[tcp]\ncopy_below_bytes = 600\n");
  EXPECT_EQ(borrowFrom("tcp"), 600u);
  EXPECT_EQ(borrowFrom("shm"), 4097u);
  choices.gather = parsed("[shm]\ncopy_below_bytes = 700\n");
  EXPECT_EQ(borrowFrom("shm"), 700u);
}

}  // namespace
}  // namespace ramcore::transport
