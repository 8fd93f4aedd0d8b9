#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ramcore/client.h"
#include "tools/support/cluster_flags.h"
#include "tools/support/process.h"

namespace ramcore::tools {
class Command;
}

namespace ramcore::rc {

/// What a command runs with: the cluster it was told, and a connection made when first needed.
class Session {
 public:
  tools::ClusterFlags cluster;
  uint64_t timeout_ms = 5000;

  /// The connected client; exits the command with a Failure if there is none to be had.
  Outcome<Client*> client();
  /// Prints one line with cause and remedy; gives the exit code.
  int fail(Status status, const std::string& what);
  int fail(const Failure& failure);
  /// The table called `name`.
  Outcome<Table> table(const std::string& name);

 private:
  std::optional<Failure> explainUnavailable(Status status, const std::string& what);

  std::optional<Client> client_;
};

/// As it is given to create and shown by list and status.
inline const char* nameOf(Durability durability) { return durability == Durability::Sync ? "sync" : "buffered"; }

/// Each declares its subcommands; the one that was asked for leaves its exit code in `exit_code`.
void addTableCommands(tools::Command& app, Session& session, int& exit_code);
void addObjectCommands(tools::Command& app, Session& session, int& exit_code);
void addTransferCommands(tools::Command& app, Session& session, int& exit_code);
void addRecoverCommand(tools::Command& app, Session& session, int& exit_code);
void addInspectCommand(tools::Command& app, Session& session, int& exit_code);
void addStatusCommand(tools::Command& app, Session& session, int& exit_code);

}  // namespace ramcore::rc
