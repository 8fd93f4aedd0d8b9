#include "tools/rcmigrate/flags.h"

#include <string>
#include <utility>

#include "tools/support/process.h"

namespace ramcore::rcmigrate {
namespace {

void declareRunning(tools::Command& command, Flags& flags) {
  command.addOption("--max-rate", flags.rate_max, "Bytes a second at the most, for all moves to a server together")
      .asSize()
      .showDefault("no limit");
  command
      .addOption("--parallel", flags.parallel, "Moves at a time; a server takes part in 4 that come and 4 that leave")
      .showDefault()
      .inRange(1, 256);
  command.addFlag("--no-wait", flags.no_wait, "Only start the moves");
  command.addFlag("--json", flags.json, "Print JSON");
  command.addFlag("--quiet", flags.quiet, "No progress on stderr");
}

void declarePlanning(tools::Command& command, Flags& flags) {
  command.addOption("--by", flags.by, "What is levelled out").showDefault().oneOf({"bytes", "objects", "load"});
  command.addOption("--sample-ms", flags.sample_ms, "Milliseconds for which calls are counted, with --by load")
      .showDefault()
      .inRange(100, 600'000);
}

void declareMove(tools::Command& move, Flags& flags) {
  move.addOption("TABLET", flags.tablets, "Numbers of the tablets, as 'list' shows them").check(tools::wholeNumber());
  move.addOption("--to", flags.server, "Name or number of the server").required().typeName("SERVER");
  move.addOption("--table", flags.table, "Move a table, or a part of it, and no single tablets").typeName("TABLE");
  move.addOption("--range", flags.range, "Only these key hashes of the table, as 0x0-0x7fff...").typeName("FIRST-LAST");
  move.addOption("--from", flags.from, "Only what is at this server").typeName("SERVER");
  move.addOption(
          "--fraction", flags.fraction,
          "By key hashes, above 0 and at most 1: how much is to be at --to in the end; with --from, the share of what "
          "is there now")
      .showDefault();
  declareRunning(move, flags);
}

}  // namespace

Parsed declare(tools::Command& app, Flags& flags) {
  flags.cluster.addTo(app);
  app.addOption("--timeout-ms", flags.timeout_ms, "Milliseconds that one question to the coordinator may take")
      .showDefault()
      .inRange(1, 3'600'000);
  app.requireCommand();
  app.takeOptionsBehindCommands();
  Parsed parsed{
      .list = app.addCommand("list", "Show the tablets and where they are"),
      .move = app.addCommand("move", "Move tablets, or a part of a table, to a server"),
      .split = app.addCommand("split", "Cut a tablet in two, in place"),
      .drain = app.addCommand("drain", "Move all tablets from a server to the others"),
      .plan = app.addCommand("plan", "Show what 'rebalance' would do"),
      .rebalance = app.addCommand("rebalance", "Move tablets so that all servers have about the same"),
      .status = app.addCommand("status", "Show the moves under way and the last ones, or one of them"),
      .rate = app.addCommand("rate", "Change how fast a move under way may be"),
      .cancel = app.addCommand("cancel", "Give up a move; one that has handed its tablet over is taken back")};

  parsed.list.addOption("TABLE", flags.table, "Only the tablets of this table");
  parsed.list.addFlag("--json", flags.json, "Print JSON");

  declareMove(parsed.move, flags);

  tools::Option table = parsed.split.addOption("TABLE", flags.table, "Table to cut at --at");
  tools::Option at = parsed.split.addOption("--at", flags.at, "Key hash that becomes the first of the upper half");
  tools::Option tablet = parsed.split.addOption("--tablet", flags.tablet, "Cut this tablet in the middle").positive();
  at.needs(table);
  table.needs(at);
  tablet.excludes(at).excludes(table);

  parsed.drain.addOption("SERVER", flags.server, "Name or number of the server").required();
  declareRunning(parsed.drain, flags);

  declarePlanning(parsed.plan, flags);
  parsed.plan.addFlag("--json", flags.json, "Print JSON");
  declarePlanning(parsed.rebalance, flags);
  parsed.rebalance.addFlag("--yes", flags.yes, "Do not ask");
  declareRunning(parsed.rebalance, flags);

  parsed.status.addOption("MIGRATION", flags.migration, "Only the move with this number").positive();
  parsed.status.addFlag(
      "--watch", flags.watch,
      "Show it again every second, until no move is under way; of one move the exit code says how it has "
      "ended");
  parsed.status.addFlag("--json", flags.json, "Print JSON; with --watch one line each time");

  parsed.rate.addOption("MIGRATION", flags.migration, "Number of the move, as 'status' shows it")
      .required()
      .check(tools::wholeNumber());
  parsed.rate.addOption("RATE", flags.rate_max, "Bytes a second at the most, for all moves to that server together")
      .required()
      .asSize();

  parsed.cancel.addOption("MIGRATION", flags.migration, "Number of the move, as 'status' shows it")
      .required()
      .check(tools::wholeNumber());
  return parsed;
}

std::optional<std::string> mistakeIn(const Parsed& parsed, const Flags& flags) {
  if (parsed.split.isGiven() && flags.tablet == 0 && flags.table.empty()) {
    return "split needs a TABLE with --at, or --tablet; see --help";
  }
  const bool has_rate = parsed.rate.isGiven() || parsed.move.isGiven("--max-rate") ||
                        parsed.drain.isGiven("--max-rate") || parsed.rebalance.isGiven("--max-rate");
  if (has_rate && flags.rate_max == 0) {
    return "a rate of 0 would never end; give bytes a second, as 50MiB, or 'cancel' the move";
  }
  if (!parsed.move.isGiven()) return std::nullopt;
  // An empty variable of a script must not mean everything.
  for (const auto& [name, value] : {std::pair("--table", &flags.table), std::pair("--range", &flags.range),
                                    std::pair("--from", &flags.from), std::pair("--to", &flags.server)}) {
    if (parsed.move.isGiven(name) && value->empty())
      return std::string(name) + " has no value; give one, or leave it out";
  }
  const bool has_part =
      parsed.move.isGiven("--range") || parsed.move.isGiven("--from") || parsed.move.isGiven("--fraction");
  if (flags.tablets.empty() == flags.table.empty()) {
    return "move needs the numbers of tablets, or --table, and not both; see --help";
  }
  if (flags.table.empty() && has_part) return "--range, --from and --fraction are for a part of a --table";
  if (!(flags.fraction > 0 && flags.fraction <= 1)) return "--fraction is above 0 and at most 1, as 0.5";
  if (!flags.from.empty() && flags.from == flags.server) return "--from and --to are the same server; name another one";
  return std::nullopt;
}

}  // namespace ramcore::rcmigrate
