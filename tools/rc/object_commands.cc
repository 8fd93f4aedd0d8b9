#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tools/rc/commands.h"
#include "tools/support/command_line.h"

namespace ramcore::rc {
namespace {

struct Values {
  std::string table;
  std::string key;
  std::optional<std::string> value;
  int64_t delta = 1;
  bool if_absent = false;
  bool if_exists = false;
  std::optional<uint64_t> if_version;
  bool raw = false;
  bool with_version = false;
};

CallOptions optionsOf(const Values& values) {
  CallOptions options;
  if (values.if_absent) options.condition = Condition::mustNotExist();
  if (values.if_exists) options.condition = Condition::mustExist();
  if (values.if_version) options.condition = Condition::versionEquals(*values.if_version);
  return options;
}

int failObject(Session& session, Status status, const Values& values, uint64_t version = 0) {
  const std::string object = "object '" + values.key + "' of table '" + values.table + "'";
  const std::string present = " (present version: " + std::to_string(version) + ")";
  switch (status) {
    case Status::NotFound:
      return session.fail(
          {status, object + " does not exist; 'ramcore scan " + values.table + "' shows those that do"});
    case Status::ObjectExists:
      return session.fail({status, object + " exists already" + present + "; leave out --if-absent to replace it"});
    case Status::WrongVersion:
      return session.fail({status, object + " has another version" + present + "; read it again and decide"});
    case Status::TypeMismatch:
      return session.fail({status, object + " is no counter: its value is not 8 bytes long; use put"});
    case Status::TooLarge:
      return session.fail({status, object + ": keys have up to 65535 bytes and values up to 1048576; make it smaller"});
    case Status::OutcomeUnknown:
      return session.fail(
          {status, object + ": no answer came, the change may have happened or not; read it and decide"});
    default:
      return session.fail(status, object);
  }
}

// Reads stdin, but at most one byte more than a value may have.
Outcome<std::string> readValue() {
  std::string value(kValueBytesLimit + 1, '\0');
  value.resize(std::fread(value.data(), 1, value.size(), stdin));
  if (std::ferror(stdin) == 0) return value;
  return Failure{Status::IoError,
                 std::string("cannot read the value from stdin: ") + std::strerror(errno) +
                     "; nothing is written: give it as an argument, or a standard input that can be read"};
}

int put(Session& session, Values& values) {
  const auto table = session.table(values.table);
  if (!table) return session.fail(table.error());
  if (!values.value) {
    auto read = readValue();
    if (!read) return session.fail(read.error());
    values.value = std::move(read).value();
  }
  const MutateResult result = (*session.client())->write(*table, values.key, *values.value, optionsOf(values));
  if (!result) return failObject(session, result.status, values, result.version);
  if (values.with_version) std::printf("%llu\n", static_cast<unsigned long long>(result.version));
  return tools::kExitOk;
}

int get(Session& session, const Values& values) {
  const auto table = session.table(values.table);
  if (!table) return session.fail(table.error());
  const auto result = (*session.client())->read(*table, values.key);
  if (!result) return failObject(session, result.error(), values);
  std::fwrite(result->value.data(), 1, result->value.size(), stdout);
  if (!values.raw) std::fputc('\n', stdout);
  if (values.with_version) std::fprintf(stderr, "version %llu\n", static_cast<unsigned long long>(result->version));
  return tools::kExitOk;
}

int remove(Session& session, const Values& values) {
  const auto table = session.table(values.table);
  if (!table) return session.fail(table.error());
  const MutateResult result = (*session.client())->remove(*table, values.key, optionsOf(values));
  if (!result) return failObject(session, result.status, values, result.version);
  return tools::kExitOk;
}

int increment(Session& session, const Values& values) {
  const auto table = session.table(values.table);
  if (!table) return session.fail(table.error());
  const MutateResult result = (*session.client())->increment(*table, values.key, values.delta);
  if (!result) return failObject(session, result.status, values, result.version);
  std::printf("%lld\n", static_cast<long long>(result.value));
  return tools::kExitOk;
}

tools::Command addCommand(tools::Command& app, const std::string& name, const std::string& text, Values& values) {
  tools::Command command = app.addCommand(name, text);
  command.addOption("TABLE", values.table, "Name of the table").required();
  command.addOption("KEY", values.key, "Key of the object").required();
  return command;
}

}  // namespace

void addObjectCommands(tools::Command& app, Session& session, int& exit_code) {
  auto values = std::make_shared<Values>();
  tools::Command command = addCommand(app, "put", "Creates or replaces an object", *values);
  command.addOption("VALUE", values->value, "Its value; without it the value is read from stdin");
  tools::Option absent = command.addFlag("--if-absent", values->if_absent, "Only if there is no such object");
  tools::Option exists = command.addFlag("--if-exists", values->if_exists, "Only if there is such an object");
  tools::Option version =
      command.addOption("--if-version", values->if_version, "Only if it has this version").check(tools::wholeNumber());
  absent.excludes(exists).excludes(version);
  exists.excludes(version);
  command.addFlag("--print-version", values->with_version, "Print the new version on stdout");
  command.onGiven([&, values] { exit_code = put(session, *values); });

  command = addCommand(app, "get", "Prints the value of an object", *values);
  command.addFlag("--raw", values->raw, "No line end after the value");
  command.addFlag("--print-version", values->with_version, "Print the version on stderr");
  command.onGiven([&, values] { exit_code = get(session, *values); });

  command = addCommand(app, "delete", "Removes an object; it is no error if there is none", *values);
  exists = command.addFlag("--if-exists", values->if_exists, "Fail if there is no such object");
  version =
      command.addOption("--if-version", values->if_version, "Only if it has this version").check(tools::wholeNumber());
  exists.excludes(version);
  command.onGiven([&, values] { exit_code = remove(session, *values); });

  command = addCommand(app, "increment", "Adds to a counter and prints its new value", *values);
  command.addOption("DELTA", values->delta, "What to add; may be negative").showDefault().check(tools::signedNumber());
  command.onGiven([&, values] { exit_code = increment(session, *values); });
}

}  // namespace ramcore::rc
