// rcmigrate: shows where the tablets of a Ramcore cluster are, moves and splits them.
#include <csignal>
#include <optional>
#include <string>

#include "runtime/real/system_clock.h"
#include "tools/rcmigrate/commands.h"
#include "tools/rcmigrate/flags.h"
#include "tools/rcmigrate/program.h"
#include "tools/support/process.h"
#include "tools/support/standard_output.h"

namespace {

using namespace ramcore;
using namespace ramcore::rcmigrate;

volatile sig_atomic_t interrupted = 0;
void onSignal(int) { interrupted = 1; }

int runGiven(const Parsed& parsed, Commands& commands) {
  if (parsed.list.isGiven()) return commands.list();
  if (parsed.move.isGiven()) return commands.move();
  if (parsed.split.isGiven()) return commands.split();
  if (parsed.drain.isGiven()) return commands.drain();
  if (parsed.plan.isGiven()) return commands.plan();
  if (parsed.rebalance.isGiven()) return commands.rebalance();
  if (parsed.status.isGiven()) return commands.status();
  if (parsed.rate.isGiven()) return commands.rate();
  return commands.cancel();
}

int runCommand(int argc, char** argv) {
  tools::CommandLine app("Shows where the tablets of a Ramcore cluster are, moves and splits them", kProgram);
  Flags flags;
  const Parsed parsed = declare(app, flags);
  int exit_code = 0;
  if (!tools::parseFlags(app, argc, argv, exit_code)) return exit_code;
  if (const std::optional<std::string> mistake = mistakeIn(parsed, flags)) {
    return tools::fail(kProgram, {Status::BadConfig, *mistake});
  }
  const Outcome<tools::ClusterAccess> access = flags.cluster.open(transport::Role::Admin);
  if (!access) return tools::fail(kProgram, access.error());
  struct sigaction action{};
  action.sa_handler = onSignal;
  // A second signal ends the process at once. What it has begun goes on.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);

  runtime::SystemClock clock;
  runtime::SystemEntropy entropy;
  Trace& trace = stderrTrace(kProgram);
  trace.setLevel(TraceLevel::Off);
  transport::tcp::AsioSleeper sleeper(clock);
  const auto session =
      tools::ClusterSession::open(*access, {.clock = clock, .entropy = entropy, .trace = trace, .sleeper = sleeper});
  if (!session) return tools::fail(kProgram, session.error());
  Commands commands(flags, **session, interrupted);
  const int code = runGiven(parsed, commands);
  (*session)->close();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  ramcore::tools::StandardOutput output(kProgram);
  return output.finish(runCommand(argc, argv));
}
