#include "tools/support/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <istream>
#include <sstream>
#include <string_view>
#include <utility>

namespace ramcore::tools {
namespace {

// A size like those of other options, or the word "auto". CLI11 calls it when it has the final value of the option.
CLI::Validator sizeOrAuto(bool& is_auto) {
  CLI::Validator size = CLI::AsSizeValue(false);
  return CLI::Validator(
      [size, &is_auto](std::string& text) {
        is_auto = text == "auto";
        if (is_auto) text = "0";
        return is_auto ? std::string() : size(text);
      },
      size.get_description());
}

constexpr const char* kAdapterGroup = "RDMA and DPDK";

// Help that has the options of adapters behind all else.
class AdaptersLast final : public CLI::Formatter {
 public:
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    if (group == kAdapterGroup) return "";
    return CLI::Formatter::make_group(std::move(group), is_positional, std::move(options));
  }
  std::string make_footer(const CLI::App* app) const override {
    const auto options =
        app->get_options([](const CLI::Option* option) { return option->get_group() == kAdapterGroup; });
    const std::string group =
        options.empty() ? "" : CLI::Formatter::make_group(kAdapterGroup, /*is_positional=*/false, options);
    return group + CLI::Formatter::make_footer(app);
  }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string help = CLI::Formatter::make_help(app, std::move(name), mode);
    // The place where the group was not shown.
    constexpr std::string_view kGap = "\n\n\n";
    for (size_t at = help.find(kGap); at != std::string::npos; at = help.find(kGap, at)) help.erase(at, 1);
    return help;
  }
};

// What is wrong with a command line. Names the real cause where CLI11 names another one.
std::string explainParse(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) && app.get_subcommands().empty() &&
      app.get_require_subcommand_min() > 0 && !unknown.empty()) {
    return "there is no command '" + unknown.front() + "'";
  }
  std::string what = error.what();
  const CLI::Option* config = app.get_config_ptr();
  const std::string file = config != nullptr && config->count() > 0 ? config->results().front() : "";
  constexpr std::string_view kConfigText = "INI was not able to parse ";
  if (what.starts_with(kConfigText)) {
    what = "configuration file '" + file + "' has '" + what.substr(kConfigText.size()) + "', which is no flag of " +
           app.get_name() + " or has no value";
  } else if (!file.empty() && what.find(file) == std::string::npos) {
    what += " (in a flag, the environment or '" + file + "')";
  }
  return what;
}

// CLI11 reads the environment last, and only for options that neither flags nor the file have set. This class drops
// options of the file that are in the environment, so that the environment takes precedence over the file.
class EnvironmentBeatsFile final : public CLI::ConfigTOML {
 public:
  explicit EnvironmentBeatsFile(const CLI::App& app) : app_(app) {}
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(in);
    std::erase_if(items,
                  [this](const CLI::ConfigItem& item) { return item.parents.empty() && isInEnvironment(item.name); });
    return items;
  }

 private:
  bool isInEnvironment(const std::string& name) const {
    const CLI::Option* option = app_.get_option_no_throw("--" + name);
    if (option == nullptr || option->get_envname().empty()) return false;
    const char* value = std::getenv(option->get_envname().c_str());
    return value != nullptr && *value != '\0';
  }
  const CLI::App& app_;
};

}  // namespace

Option Option::required() { return Option(*option_->required()); }

Option Option::needs(const Option& other) { return Option(*option_->needs(other.option_)); }

Option Option::excludes(const Option& other) { return Option(*option_->excludes(other.option_)); }

Option Option::environment(const std::string& variable) { return Option(*option_->envname(variable)); }

Option Option::ofAdapters() { return Option(*option_->group(kAdapterGroup)); }

Option Option::typeName(const std::string& name) { return Option(*option_->type_name(name)); }

Option Option::showDefault() { return Option(*option_->capture_default_str()); }

Option Option::showDefault(const std::string& text) { return Option(*option_->default_str(text)); }

Option Option::oneValueEach() {
  return Option(*option_->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
}

Option Option::splitAt(char delimiter) { return Option(*option_->delimiter(delimiter)); }

Option Option::inRange(int least, int most) { return Option(*option_->check(CLI::Range(least, most))); }

Option Option::inRange(uint32_t least, uint32_t most) { return Option(*option_->check(CLI::Range(least, most))); }

Option Option::inRange(uint64_t least, uint64_t most) { return Option(*option_->check(CLI::Range(least, most))); }

Option Option::positive() { return Option(*option_->check(CLI::PositiveNumber)); }

Option Option::oneOf(const std::vector<std::string>& words) { return Option(*option_->check(CLI::IsMember(words))); }

Option Option::oneOfInAnyCase(const std::vector<std::string>& words) {
  return Option(*option_->check(CLI::IsMember(words, CLI::ignore_case)));
}

Option Option::asSize() { return Option(*option_->transform(CLI::AsSizeValue(false))); }

Option Option::asSizeOrAuto(bool& is_auto) { return Option(*option_->transform(sizeOrAuto(is_auto))); }

Option Option::check(const std::function<std::string(const std::string&)>& mistake) {
  return Option(*option_->check(mistake));
}

bool Option::isGiven() const { return !option_->empty(); }

Option Command::addOption(const std::string& name, std::string& variable, const std::string& about) {
  return Option(*app_->add_option(name, variable, about));
}

Option Command::addOption(const std::string& name, uint32_t& variable, const std::string& about) {
  return Option(*app_->add_option(name, variable, about));
}

Option Command::addOption(const std::string& name, uint64_t& variable, const std::string& about) {
  return Option(*app_->add_option(name, variable, about));
}

Option Command::addOption(const std::string& name, int64_t& variable, const std::string& about) {
  return Option(*app_->add_option(name, variable, about));
}

Option Command::addOption(const std::string& name, double& variable, const std::string& about) {
  return Option(*app_->add_option(name, variable, about));
}

Option Command::addOption(const std::string& name, std::optional<std::string>& variable, const std::string& about) {
  return Option(*app_->add_option(name, variable, about));
}

Option Command::addOption(const std::string& name, std::optional<uint32_t>& variable, const std::string& about) {
  return Option(*app_->add_option(name, variable, about));
}

Option Command::addOption(const std::string& name, std::optional<uint64_t>& variable, const std::string& about) {
  return Option(*app_->add_option(name, variable, about));
}

Option Command::addOption(const std::string& name, std::vector<std::string>& variable, const std::string& about) {
  return Option(*app_->add_option(name, variable, about));
}

Option Command::addOption(const std::string& name, std::vector<uint64_t>& variable, const std::string& about) {
  return Option(*app_->add_option(name, variable, about));
}

// CLI11 takes a byte for a character.
Option Command::addOption(const std::string& name, uint8_t& variable, const std::string& about) {
  return Option(*app_->add_option_function<int>(
      name, [&variable](const int& number) { variable = static_cast<uint8_t>(number); }, about));
}

Option Command::addFlag(const std::string& name, bool& variable, const std::string& about) {
  return Option(*app_->add_flag(name, variable, about));
}

void Command::setVersion(const std::string& text) { app_->set_version_flag("--version", text); }

Option Command::addConfigFile(const std::string& about) {
  app_->allow_config_extras(CLI::config_extras_mode::error);
  return Option(*app_->set_config("--config", "", about));
}

void Command::removeOption(const std::string& name) { app_->remove_option(app_->get_option(name)); }

void Command::showDefaults() { app_->option_defaults()->always_capture_default(); }

Command Command::addCommand(const std::string& name, const std::string& about) {
  return Command(*app_->add_subcommand(name, about));
}

void Command::requireCommand() { app_->require_subcommand(1); }

void Command::takeOptionsBehindCommands() { app_->fallthrough(); }

void Command::onGiven(const std::function<void()>& function) { app_->callback(function); }

bool Command::isGiven() const { return app_->parsed(); }

bool Command::isGiven(const std::string& option) const { return app_->count(option) > 0; }

CommandLine::CommandLine(const std::string& about, const std::string& program)
    : CommandLine(std::make_unique<CLI::App>(about, program)) {}

CommandLine::CommandLine(std::unique_ptr<CLI::App> app) : Command(*app), owned_(std::move(app)) {
  app_->config_formatter(std::make_shared<EnvironmentBeatsFile>(*app_));
  app_->formatter(std::make_shared<AdaptersLast>());
}

CommandLine::~CommandLine() = default;

const std::string& CommandLine::program() const { return app_->get_name(); }

std::optional<ParseEnd> CommandLine::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& success) {
    std::ostringstream text;
    app_->exit(success, text, text);
    return ParseEnd{.is_mistake = false, .text = text.str()};
  } catch (const CLI::ParseError& error) {
    ParseEnd end{.is_mistake = true, .text = explainParse(*app_, error)};
    for (char& c : end.text) c = c == '\n' ? ' ' : c;
    return end;
  }
}

bool CommandLine::parseOrPrint(int argc, const char* const* argv, int& exit_code) {
  try {
    app_->parse(argc, argv);
    return true;
  } catch (const CLI::ParseError& error) {
    exit_code = app_->exit(error);
    return false;
  }
}

}  // namespace ramcore::tools
