#include "transport/locator.h"

#include <gtest/gtest.h>

namespace ramcore::transport {
namespace {

TEST(Locator, PrintsToATextThatMeansTheSame) {
  for (const std::string text :
       {"tcp://127.0.0.1:11100", "tcp://node-1.example.org:1", "tcp://[fe80::1%eth0]:65535", "tcp://[2%1]:80",
        "tcp://0.0.0.0:0", "shm:///run/ramcore/server1", "sim://server1", "verbs://10.0.0.1:1100?device=rxe0&port=2",
        "dpdk://02:00:00:00:0a:ff@1", "dpdk://any@65535", "dpdk://any@0?port=eth1"}) {
    const auto parsed = Locator::parse(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.error().message;
    EXPECT_EQ(parsed->toString(), text);
  }
  const auto v6 = Locator::parse("tcp://[::1]:80");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, 80);
}

TEST(Locator, RefusesWhatIsNotOne) {
  for (const std::string& text : {
           std::string(""),
           std::string("127.0.0.1:80"),
           std::string("://x"),
           std::string("http://127.0.0.1:80"),
           std::string("tcp://127.0.0.1"),
           std::string("tcp://:80"),
           std::string("tcp://127.0.0.1:"),
           std::string("tcp://127.0.0.1:65536"),
           std::string("tcp://127.0.0.1:-1"),
           std::string("tcp://127.0.0.1:80x"),
           std::string("tcp://::1:80"),
           std::string("tcp://[::1:80"),
           std::string("tcp://[::1]80"),
           std::string("tcp://[]:80"),
           std::string("tcp://[[\0\xbe\xbd\0\xbe\xbd\xbd\xbd]:88", 20),  // found by fuzzing: printed to another text
           std::string("tcp://[[]:88"),
           std::string("tcp://a b:88"),
           std::string("tcp://host/path:88"),
           std::string("shm://relative"),
           std::string("shm://"),
           std::string("shm:///run/a\0b", 14),
           "shm:///" + std::string(100, 'a'),
           std::string("sim://"),
           std::string("tcp://127.0.0.1:80?device"),
           std::string("tcp://127.0.0.1:80?=rxe0"),
           std::string("tcp://127.0.0.1:80?device=a&device=b"),
           std::string("dpdk://"),
           std::string("dpdk://any"),
           std::string("dpdk://any@"),
           std::string("dpdk://@1"),
           std::string("dpdk://any@65536"),
           std::string("dpdk://any:1"),
           std::string("dpdk://02:00:00:00:00:01"),
           std::string("dpdk://02:00:00:00:00@1"),
           std::string("dpdk://02:00:00:00:00:01:02@1"),
           std::string("dpdk://02-00-00-00-00-01@1"),
           std::string("dpdk://02:00:00:00:0A:01@1"),  // an address is written in one way only
           std::string("dpdk://0g:00:00:00:00:01@1"),
           std::string("dpdk://02:00:00:00:00:01@1@2"),
       }) {
    const auto parsed = Locator::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().status, Status::BadConfig);
    EXPECT_NE(parsed.error().message.find("write e.g."), std::string::npos) << parsed.error().message;
  }
}

TEST(Locator, KnowsWhatOnlyThisMachineReaches) {
  for (const char* text :
       {"tcp://127.0.0.1:1", "tcp://127.8.9.1:1", "tcp://localhost:1", "tcp://[::1]:1", "shm:///a"}) {
    EXPECT_TRUE(isLocalOnly(Locator::parse(text).value())) << text;
  }
  for (const char* text : {"tcp://0.0.0.0:1", "tcp://127.example.org:1", "tcp://[::]:1", "tcp://10.0.0.1:1"}) {
    EXPECT_FALSE(isLocalOnly(Locator::parse(text).value())) << text;
  }
}

// If one connection carries handshake and messages, a process whose session ends without an answer has died.
TEST(Locator, KnowsWhichSessionsMayOpenAndNotWork) {
  for (const char* text : {"tcp://10.0.0.1:1", "shm:///a"}) {
    EXPECT_FALSE(mayOpenAndNotWork(Locator::parse(text).value())) << text;
  }
  for (const char* text : {"verbs://10.0.0.1:1", "dpdk://02:00:00:00:00:01@1"}) {
    EXPECT_TRUE(mayOpenAndNotWork(Locator::parse(text).value())) << text;
  }
}

}  // namespace
}  // namespace ramcore::transport
