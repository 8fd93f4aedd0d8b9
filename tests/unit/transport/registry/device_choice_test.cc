#include <gtest/gtest.h>

#include <string>

#include "transport/registry/registry.h"

namespace ramcore::transport {
namespace {

VerbsDeviceChoice deviceOf(const std::string& text) {
  const auto choice = VerbsDeviceChoice::parse(text);
  EXPECT_TRUE(choice.ok()) << text;
  return choice.ok() ? *choice : VerbsDeviceChoice{};
}

TEST(VerbsDeviceChoice, WhatIsLeftOutIsChosen) {
  EXPECT_EQ(deviceOf("mlx5_0").device, "mlx5_0");
  EXPECT_EQ(deviceOf("mlx5_0").port, 0);
  EXPECT_EQ(deviceOf("mlx5_0").gid_index, -1);
  EXPECT_EQ(deviceOf("mlx5_0").host, "");
  const VerbsDeviceChoice with_port = deviceOf("rxe1:255");
  EXPECT_EQ(with_port.device, "rxe1");
  EXPECT_EQ(with_port.port, 255);
  EXPECT_EQ(with_port.gid_index, -1);
  const VerbsDeviceChoice whole = deviceOf("rxe1:2:0");
  EXPECT_EQ(whole.port, 2);
  EXPECT_EQ(whole.gid_index, 0);
  EXPECT_EQ(deviceOf("rxe1:2:255").gid_index, 255);
}

TEST(VerbsDeviceChoice, WhatIsNoneIsSaid) {
  for (const std::string text : {"", ":", ":1", ":1:2", "a:", "a:0", "a:256", "a:-1", "a:+1", "a: 1", "a:1 ", "a:one",
                                 "a:1:", "a:1:256", "a:1:-1", "a:1:2:3", "a::3", "a:1:2x"}) {
    const auto choice = VerbsDeviceChoice::parse(text);
    ASSERT_FALSE(choice.ok()) << text;
    EXPECT_EQ(choice.error().status, Status::BadConfig);
    EXPECT_TRUE(choice.error().message.starts_with("'" + text + "' chooses no RDMA device; write its name"));
  }
}

TEST(VerbsDeviceChoice, ALocatorHasHostAndOptions) {
  const auto plain = VerbsDeviceChoice::of(Locator::parse("verbs://10.77.0.1:11100").value());
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->host, "10.77.0.1");
  EXPECT_EQ(plain->device, "");
  EXPECT_EQ(plain->port, 0);
  EXPECT_EQ(plain->gid_index, -1);
  const auto whole =
      VerbsDeviceChoice::of(Locator::parse("verbs://10.77.0.1:11100?gid=3&device=mlx5_0&port=1").value());
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->device, "mlx5_0");
  EXPECT_EQ(whole->port, 1);
  EXPECT_EQ(whole->gid_index, 3);
}

TEST(VerbsDeviceChoice, AnOptionThatMeansNothingIsNamed) {
  for (const std::string option : {"port=0", "port=256", "port=x", "gid=256", "gid=-1", "mtu=4096", "Device=x"}) {
    const auto choice = VerbsDeviceChoice::of(Locator::parse("verbs://10.77.0.1:11100?" + option).value());
    ASSERT_FALSE(choice.ok()) << option;
    EXPECT_EQ(choice.error().status, Status::BadConfig);
    EXPECT_NE(choice.error().message.find("'" + option + "' means nothing; verbs takes device=NAME"), std::string::npos)
        << choice.error().message;
  }
}

}  // namespace
}  // namespace ramcore::transport
