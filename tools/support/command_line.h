#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ramcore::tools {

// Command lines, environment variables and configuration files of the programs below tools/ and tests/. CLI11 does the
// work; command_line.cc alone includes it, because it takes seconds to compile.
//
// A mistake in a declaration, such as two options with one name, is an exception of CLI11.

/// What is declared: an option with a value, a flag, or an argument. A handle: copies mean the same option, and none
/// outlives the CommandLine.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option required();
  /// It may not be given without `other`.
  Option needs(const Option& other);
  /// It may not be given together with `other`.
  Option excludes(const Option& other);
  /// If the command line does not have it, it takes its value from this environment variable.
  Option environment(const std::string& variable);

  /// It is about RDMA devices or ports of DPDK: the help shows it at the end, behind all that more people need.
  Option ofAdapters();
  /// The name of its value in the help; without this call the name follows from the variable.
  Option typeName(const std::string& name);
  /// The help shows the value that the variable has now.
  Option showDefault();
  /// The help shows this; with an empty text, nothing.
  Option showDefault(const std::string& text);

  /// For a vector: the option may be repeated, with one value each time. (Otherwise several values may follow each
  /// other.)
  Option oneValueEach();
  /// For a vector: one text may hold several values, with `delimiter` between them.
  Option splitAt(char delimiter);

  // Checks of each value. The help shows them, except that of check().

  /// A number from `least` to `most`.
  Option inRange(int least, int most);
  Option inRange(uint32_t least, uint32_t most);
  Option inRange(uint64_t least, uint64_t most);
  /// A number above 0.
  Option positive();
  /// One of these words.
  Option oneOf(const std::vector<std::string>& words);
  Option oneOfInAnyCase(const std::vector<std::string>& words);
  /// Bytes, with or without a unit, which is a power of 1024.
  Option asSize();
  /// The same, or the word "auto", which stands for 0 and sets `is_auto`.
  Option asSizeOrAuto(bool& is_auto);
  /// @param mistake  gives what is wrong with a value; empty: nothing
  Option check(const std::function<std::string(const std::string&)>& mistake);

  /// After parsing: whether command line, environment or configuration file have it.
  bool isGiven() const;

 private:
  CLI::Option* option_;
};

/// A program or one of its commands, with options of its own. A handle, as Option is.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  /// Declares "--name", or with a name without dashes the next argument. Parsing sets `variable`, which has the
  /// default.
  Option addOption(const std::string& name, std::string& variable, const std::string& about = "");
  Option addOption(const std::string& name, uint32_t& variable, const std::string& about = "");
  Option addOption(const std::string& name, uint64_t& variable, const std::string& about = "");
  Option addOption(const std::string& name, int64_t& variable, const std::string& about = "");
  Option addOption(const std::string& name, double& variable, const std::string& about = "");
  Option addOption(const std::string& name, std::optional<std::string>& variable, const std::string& about = "");
  Option addOption(const std::string& name, std::optional<uint32_t>& variable, const std::string& about = "");
  Option addOption(const std::string& name, std::optional<uint64_t>& variable, const std::string& about = "");
  Option addOption(const std::string& name, std::vector<std::string>& variable, const std::string& about = "");
  Option addOption(const std::string& name, std::vector<uint64_t>& variable, const std::string& about = "");
  /// The value is a number here as well, and no character. The declaration has to check that the number fits.
  Option addOption(const std::string& name, uint8_t& variable, const std::string& about = "");
  /// Declares "--name", which sets `variable`, or "!--name", which clears it.
  Option addFlag(const std::string& name, bool& variable, const std::string& about = "");
  /// Declares "--version", in the place of one that was declared before.
  void setVersion(const std::string& text);
  /// Declares "--config FILE", in TOML. The file may have the options that were declared with "--name", as `name`;
  /// anything else in it is a mistake.
  Option addConfigFile(const std::string& about);
  /// Removes the option "--name".
  void removeOption(const std::string& name);
  /// From now on the help shows the default of each option that is declared here, or in commands that are added later:
  /// the value that its variable has when it is declared.
  void showDefaults();

  /// Adds a command, which has its own options.
  Command addCommand(const std::string& name, const std::string& about);
  /// One of the commands has to be given.
  void requireCommand();
  /// The options of this command may also be given after a command that is added from now on.
  void takeOptionsBehindCommands();
  /// Parsing calls `function` at its end if this command was given.
  void onGiven(const std::function<void()>& function);

  /// After parsing: whether this command was given.
  bool isGiven() const;
  /// After parsing: whether the option "--name" was given, as Option::isGiven() says.
  bool isGiven(const std::string& option) const;

 protected:
  CLI::App* app_;
};

/// Why a program ends after its command line was read.
struct ParseEnd {
  bool is_mistake = false;
  std::string text;  ///< what is wrong, in one line; or the help or the version, which was asked for
};

/// The command line of a program. Has "--help" from the start.
class CommandLine : public Command {
 public:
  /// @param program  its name for people; empty: the name by which it was started
  explicit CommandLine(const std::string& about, const std::string& program = "");
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine();

  const std::string& program() const;
  /// Sets the variables and calls the functions of onGiven(). The command line takes precedence over the environment,
  /// and the environment over the configuration file. Returns nothing if the program goes on.
  std::optional<ParseEnd> parse(int argc, const char* const* argv);
  /// The same for programs of tests: prints help to std::cout, or what is wrong to std::cerr, in the words of CLI11.
  /// Returns false when the process is to end with `exit_code`.
  bool parseOrPrint(int argc, const char* const* argv, int& exit_code);

 private:
  explicit CommandLine(std::unique_ptr<CLI::App> app);

  const std::unique_ptr<CLI::App> owned_;
};

}  // namespace ramcore::tools
