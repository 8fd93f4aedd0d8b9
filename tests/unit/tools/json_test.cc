#include "tools/support/json.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace ramcore::tools {
namespace {

TEST(JsonTest, MembersStayInTheirOrder) {
  Json json = {{"later", 1}, {"earlier", Json::array({true, nullptr, "text"})}};
  json["added"] = -2;
  EXPECT_EQ(json.dump(), R"({"later":1,"earlier":[true,null,"text"],"added":-2})");
  EXPECT_EQ(Json({{"a", Json::array()}, {"b", Json::object()}}).dump(2), "{\n  \"a\": [],\n  \"b\": {}\n}");
}

TEST(JsonTest, AnUpdateReplacesWhatIsThereAndAddsTheRest) {
  Json json = {{"a", 1}, {"b", 2}};
  json.update({{"b", 3}, {"c", 4}});
  EXPECT_EQ(json.dump(), R"({"a":1,"b":3,"c":4})");
}

TEST(JsonTest, NumbersAreReadAsTheyWereWritten) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  const std::optional<Json> json = Json::parse("[" + std::to_string(most) + ",-5,0.5,1e3]");
  ASSERT_TRUE(json);
  EXPECT_TRUE(json->elements()[0].isUnsigned());
  EXPECT_EQ(json->elements()[0].asUnsigned(), most);
  EXPECT_FALSE(json->elements()[1].isUnsigned());
  EXPECT_EQ(json->elements()[1].asSigned(), -5);
  EXPECT_EQ(json->dump(), "[18446744073709551615,-5,0.5,1000.0]");
}

TEST(JsonTest, OfARepeatedMemberTheLastOneCounts) {
  const std::optional<Json> json = Json::parse(R"({"a":1,"a":2})");
  ASSERT_TRUE(json);
  EXPECT_EQ(json->members().size(), 2U);
  EXPECT_EQ(json->at("a").asUnsigned(), 2U);
  EXPECT_EQ(json->valueOf("a", uint64_t{7}), 2U);
  EXPECT_EQ(json->valueOf("b", uint64_t{7}), 7U);
}

TEST(JsonTest, WhatIsNoJsonIsNotRead) {
  for (const std::string text : {"", "{", "[1,]", "{\"a\":1} x", "nul", "\"\xff\""}) {
    std::string why;
    EXPECT_FALSE(Json::parse(text, &why)) << text;
    EXPECT_NE(why.find("parse error"), std::string::npos) << text << ": " << why;
  }
}

TEST(JsonTest, WrongUtf8IsAnExceptionOrReplaced) {
  const Json json =
      Json::array({std::string("a\xff"
                               "b")});
  EXPECT_THROW(json.dump(), std::exception);
  EXPECT_EQ(json.dump(std::nullopt, Json::BadUtf8::Replace),
            "[\"a\xef\xbf\xbd"
            "b\"]");
  EXPECT_EQ(quotedAscii("\xc3\xa4\xff\n"), R"("\u00e4\ufffd\n")");
}

// A line of an import comes from outside, and may be nested deeper than the stack.
TEST(JsonTest, ADeepValueIsReadRefusedAndFreedWithoutRecursion) {
  constexpr size_t kDepth = 1'000'000;
  const std::optional<Json> arrays = Json::parse(std::string(kDepth, '[') + std::string(kDepth, ']'));
  ASSERT_TRUE(arrays);
  EXPECT_THROW(arrays->asString(), std::exception);
  EXPECT_THROW(arrays->asUnsigned(), std::exception);
  std::string text;
  for (size_t i = 0; i < kDepth; ++i) text += "{\"a\":";
  const std::optional<Json> objects = Json::parse(text + "1" + std::string(kDepth, '}'));
  ASSERT_TRUE(objects);
  EXPECT_THROW(objects->at("b"), std::exception);
  EXPECT_THROW(objects->valueOf("a", std::string()), std::exception);
}

}  // namespace
}  // namespace ramcore::tools
