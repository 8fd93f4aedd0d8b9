#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "client/client_impl.h"
#include "tools/rc/commands.h"
#include "tools/rc/loss_report.h"
#include "tools/support/command_line.h"
#include "tools/support/display.h"
#include "tools/support/json.h"
#include "tools/support/standard_output.h"

namespace ramcore::rc {
namespace {

using client::ClusterStatus;
using client::RecoveryProgress;
using tools::formatServer;
using tools::Json;

// Time between two questions to the coordinator about how far it is.
constexpr auto kLookEvery = std::chrono::milliseconds(200);

struct Flags {
  std::string server;  // --accept-loss
  bool yes = false;
  bool as_json = false;
  uint64_t wait_s = 120;
};

std::string deadServerName(const RecoveryProgress& recovery) {
  return "server " + formatServer(recovery.server) + " (" + recovery.server_name + ")";
}

class Recover {
 public:
  Recover(Session& session, Client& client, const Flags& flags) : session_(session), client_(client), flags_(flags) {}

  int list() {
    const auto status = look();
    if (!status.ok()) return session_.fail(status.error(), "the cluster's status");
    if (flags_.as_json) {
      Json out = Json::array();
      for (const RecoveryProgress& recovery : status->recoveries) out.append(toJson(*status, recovery));
      print(out);
      return tools::kExitOk;
    }
    if (status->recoveries.empty()) std::printf("all tablets of dead servers are back\n");
    for (const RecoveryProgress& recovery : status->recoveries) {
      std::printf("%s", describe(*status, recovery).c_str());
      if (isIncomplete(recovery)) std::printf("%s", remedies(*status, recovery).c_str());
    }
    return tools::kExitOk;
  }

  int acceptLoss() {
    auto status = look();
    if (!status.ok()) return session_.fail(status.error(), "the cluster's status");
    auto found = find(*status);
    // Shortly after a death or a start some servers have not answered yet.
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(session_.timeout_ms);
    while (found && isIncomplete(**found) && (*found)->loss_token == 0 && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(kLookEvery);
      status = look();
      if (!status.ok()) return session_.fail(status.error(), "the cluster's status");
      found = find(*status);
    }
    if (!found) return session_.fail(found.error());
    const RecoveryProgress shown = **found;
    if (!isIncomplete(shown)) {
      return session_.fail({Status::BadRequest, deadServerName(shown) +
                                                    ": nothing of its log is missing, it is recovered as a "
                                                    "whole; there is no loss to accept"});
    }
    say(describe(*status, shown));
    if (shown.loss_token == 0) {
      return session_.fail({Status::RetryLater,
                            "some live servers have not said yet what they have; wait for them, or stop those that do "
                            "not answer, and try again"});
    }
    say(describeLoss(*status, shown));
    if (!shown.loss_accepted) {
      const auto agreed = confirm(shown);
      if (!agreed) return session_.fail(agreed.error());
    }
    const Status accepted = accept(shown);
    if (accepted == Status::WrongVersion || accepted == Status::NotFound) return sayChanged(shown);
    if (accepted != Status::Ok) return session_.fail(accepted, "accepting the loss");
    say("accepted; " + deadServerName(shown) + " is recovered with what is left\n");
    return await(shown);
  }

 private:
  Result<ClusterStatus> look() {
    return client_.impl().runTask(std::nullopt, [](client::ClusterClient& cluster, int64_t deadline_ns) {
      return cluster.coordinator().clusterStatus(deadline_ns);
    });
  }

  Status accept(const RecoveryProgress& shown) {
    return client_.impl().runTask(std::nullopt, [&](client::ClusterClient& cluster, int64_t deadline_ns) {
      return cluster.coordinator().acceptLoss(shown.server, shown.loss_token, deadline_ns);
    });
  }

  // The recovery of the server that --accept-loss names, by number or name.
  Outcome<const RecoveryProgress*> find(const ClusterStatus& status) const {
    const RecoveryProgress* found = nullptr;
    for (const RecoveryProgress& recovery : status.recoveries) {
      if (formatServer(recovery.server) == flags_.server) return &recovery;
    }
    for (const RecoveryProgress& recovery : status.recoveries) {
      if (recovery.server_name != flags_.server) continue;
      if (found != nullptr) {
        return Failure{Status::BadRequest, "several dead servers are called '" + flags_.server +
                                               "'; name one by its number, which 'ramcore recover' shows"};
      }
      found = &recovery;
    }
    if (found != nullptr) return found;
    return Failure{Status::NotFound, "no dead server '" + flags_.server +
                                         "' has tablets that are not back; 'ramcore recover' lists those that do"};
  }

  Outcome<bool> confirm(const RecoveryProgress& shown) const {
    if (tools::isOutputLost()) {
      return Failure{
          Status::IoError,
          "nothing is done: what would be given up could not be shown; make sure that standard output can be written"};
    }
    if (flags_.yes) return true;
    if (::isatty(STDIN_FILENO) != 1) {
      return Failure{Status::BadConfig,
                     "nothing is done: standard input is no terminal at which to ask; give --yes to accept this loss"};
    }
    std::fprintf(stderr, "Type the number of the server (%s) to give this up: ", formatServer(shown.server).c_str());
    std::string answer;
    std::getline(std::cin, answer);
    if (answer == formatServer(shown.server)) return true;
    return Failure{Status::Cancelled, "nothing is done"};
  }

  int sayChanged(const RecoveryProgress& shown) {
    const auto status = look();
    if (!status.ok()) return session_.fail(status.error(), "the cluster's status");
    const auto found = std::find_if(status->recoveries.begin(), status->recoveries.end(),
                                    [&](const RecoveryProgress& one) { return one.server == shown.server; });
    if (found == status->recoveries.end()) {
      say("meanwhile all tablets of " + deadServerName(shown) + " came back; nothing was given up\n");
      return tools::kExitOk;
    }
    say("the situation has changed:\n" + describe(*status, *found));
    if (isIncomplete(*found)) say(describeLoss(*status, *found));
    return session_.fail({Status::WrongVersion,
                          "nothing was given up, because something came back or more went missing meanwhile; look at "
                          "the new situation and try again"});
  }

  // Waits until the tablets are back.
  int await(const RecoveryProgress& shown) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(flags_.wait_s);
    std::string last;
    for (;;) {
      const auto status = look();
      if (!status.ok()) return session_.fail(status.error(), "the cluster's status");
      const auto found = std::find_if(status->recoveries.begin(), status->recoveries.end(),
                                      [&](const RecoveryProgress& one) { return one.server == shown.server; });
      if (found == status->recoveries.end()) {
        say("all tablets of " + deadServerName(shown) + " are back\n");
        if (flags_.as_json) print({{"server", formatServer(shown.server)}, {"accepted", true}, {"recovered", true}});
        return tools::kExitOk;
      }
      if (found->loss_token != 0 && !found->loss_accepted) {
        say(describe(*status, *found) + describeLoss(*status, *found));
        return session_.fail({Status::WrongVersion,
                              "more is missing now than was accepted; nothing more is done until "
                              "it comes back, or this loss is accepted"});
      }
      const std::string now = std::to_string(found->tablets_left) + " tablets left; " + found->text;
      if (now != last) say(now + "\n");
      last = now;
      if (std::chrono::steady_clock::now() >= give_up) {
        return session_.fail({Status::DeadlineExceeded,
                              "the loss is accepted and the recovery goes on, but its tablets "
                              "are not back after " +
                                  std::to_string(flags_.wait_s) + " s: " + found->text});
      }
      std::this_thread::sleep_for(kLookEvery);
    }
  }

  // Text for people goes to stderr where stdout has JSON for programs.
  void say(const std::string& text) const {
    std::FILE* to = flags_.as_json ? stderr : stdout;
    std::fprintf(to, "%s", text.c_str());
    std::fflush(to);
  }
  static void print(const Json& json) { std::printf("%s\n", json.dump(2, Json::BadUtf8::Replace).c_str()); }

  Session& session_;
  Client& client_;
  const Flags& flags_;
};

int recover(Session& session, const Flags& flags) {
  const auto connected = session.client();
  if (!connected) return session.fail(connected.error());
  Recover command(session, **connected, flags);
  return flags.server.empty() ? command.list() : command.acceptLoss();
}

}  // namespace

void addRecoverCommand(tools::Command& app, Session& session, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  tools::Command command =
      app.addCommand("recover", "Lists dead servers whose tablets are not back: what is missing, and where it was");
  tools::Option accept = command.addOption(
      "--accept-loss", flags->server,
      "Gives up what is missing of this dead server's log (number or name), after saying what that is");
  command.addFlag("--yes", flags->yes, "Do not ask before giving it up").needs(accept);
  command
      .addOption("--wait-s", flags->wait_s, "How long to wait for the tablets after the loss was accepted, in seconds")
      .needs(accept)
      .showDefault()
      .inRange(uint64_t{0}, uint64_t{86'400});
  command.addFlag("--json", flags->as_json, "As JSON");
  command.onGiven([&, flags] { exit_code = recover(session, *flags); });
}

}  // namespace ramcore::rc
