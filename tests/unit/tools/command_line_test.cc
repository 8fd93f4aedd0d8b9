#include "tools/support/command_line.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace ramcore::tools {
namespace {

std::optional<ParseEnd> parse(CommandLine& line, std::vector<const char*> words) {
  words.insert(words.begin(), "program");
  return line.parse(static_cast<int>(words.size()), words.data());
}

TEST(CommandLineTest, OptionsSetTheirVariables) {
  CommandLine line("about", "program");
  uint32_t count = 3;
  std::string name;
  bool is_on = false;
  line.addOption("--count", count, "How many").showDefault().inRange(1, 9);
  const Option named = line.addOption("name", name, "Whose").required();
  line.addFlag("--on", is_on, "Whether");
  EXPECT_FALSE(parse(line, {"--count", "7", "x", "--on"}));
  EXPECT_EQ(count, 7U);
  EXPECT_EQ(name, "x");
  EXPECT_TRUE(is_on);
  EXPECT_TRUE(named.isGiven());
  EXPECT_TRUE(line.isGiven("--count"));
}

TEST(CommandLineTest, AMistakeIsOneLineThatNamesTheOption) {
  CommandLine line("about", "program");
  uint32_t count = 3;
  line.addOption("--count", count, "How many").inRange(1, 9);
  for (const std::vector<const char*>& words :
       {std::vector<const char*>{"--count", "10"}, {"--count", "x"}, {"--count"}}) {
    const std::optional<ParseEnd> end = parse(line, words);
    ASSERT_TRUE(end);
    EXPECT_TRUE(end->is_mistake);
    EXPECT_NE(end->text.find("--count"), std::string::npos) << end->text;
    EXPECT_EQ(end->text.find('\n'), std::string::npos) << end->text;
  }
}

TEST(CommandLineTest, HelpShowsDefaultsAndIsNoMistake) {
  CommandLine line("about", "program");
  uint32_t count = 3;
  line.addOption("--count", count, "How many").showDefault();
  const std::optional<ParseEnd> end = parse(line, {"--help"});
  ASSERT_TRUE(end);
  EXPECT_FALSE(end->is_mistake);
  EXPECT_NE(end->text.find("--count UINT=3"), std::string::npos) << end->text;
}

TEST(CommandLineTest, HelpHasTheOptionsOfAdaptersBehindAllElse) {
  CommandLine line("about", "program");
  std::string device;
  uint32_t count = 3;
  line.addOption("--device", device, "Which").ofAdapters();
  line.addOption("--count", count, "How many");
  line.addCommand("run", "Runs");
  const std::string help = parse(line, {"--help"}).value_or(ParseEnd()).text;
  const size_t group = help.find("\nRDMA and DPDK:\n");
  ASSERT_NE(group, std::string::npos) << help;
  EXPECT_GT(help.find("--device"), group) << help;
  EXPECT_LT(help.find("--count"), group) << help;
  EXPECT_LT(help.find("Runs"), group) << help;
  EXPECT_EQ(help.find("\n\n\n"), std::string::npos) << help;
}

TEST(CommandLineTest, TheCommandLineBeatsTheEnvironmentWhichBeatsTheFile) {
  const std::string file = testing::TempDir() + "command_line_test.toml";
  std::ofstream(file) << "first = 1\nsecond = 1\nthird = 1\n";
  setenv("RAMCORE_TEST_SECOND", "2", 1);
  setenv("RAMCORE_TEST_THIRD", "2", 1);
  CommandLine line("about", "program");
  uint32_t first = 0;
  uint32_t second = 0;
  uint32_t third = 0;
  line.addConfigFile("File with options");
  line.addOption("--first", first).environment("RAMCORE_TEST_FIRST");
  line.addOption("--second", second).environment("RAMCORE_TEST_SECOND");
  line.addOption("--third", third).environment("RAMCORE_TEST_THIRD");
  const std::optional<ParseEnd> end = parse(line, {"--config", file.c_str(), "--third", "3"});
  EXPECT_FALSE(end) << end->text;
  EXPECT_EQ(first, 1U);
  EXPECT_EQ(second, 2U);
  EXPECT_EQ(third, 3U);
}

TEST(CommandLineTest, CommandsHaveOptionsOfTheirOwn) {
  CommandLine line("about", "program");
  line.requireCommand();
  bool ran = false;
  uint32_t count = 0;
  Command one = line.addCommand("one", "The first");
  one.addOption("--count", count);
  one.onGiven([&] { ran = true; });
  line.addCommand("two", "The second");
  EXPECT_FALSE(parse(line, {"one", "--count", "4"}));
  EXPECT_TRUE(ran && one.isGiven());
  EXPECT_EQ(count, 4U);
  CommandLine other("about", "program");
  other.requireCommand();
  other.addCommand("one", "The first");
  const std::optional<ParseEnd> end = parse(other, {});
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->is_mistake);
}

}  // namespace
}  // namespace ramcore::tools
