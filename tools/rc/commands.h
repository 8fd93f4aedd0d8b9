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

/// What a command runs with: the flags that name the cluster, and a connection that is made when it is first needed.
class Session {
 public:
  tools::ClusterFlags cluster;
  uint64_t timeout_ms = 5000;

  /// The connected client. Failure: no connection could be made; the command ends with it.
  Outcome<Client*> client();
  /// Prints one line with cause and remedy; returns the exit code.
  int fail(Status status, const std::string& what);
  int fail(const Failure& failure);
  /// The table called `name`.
  Outcome<Table> table(const std::string& name);

 private:
  std::optional<Failure> explainUnavailable(Status status, const std::string& what);

  std::optional<Client> client_;
};

/// The word for a durability that `create` takes, and that `list` and `status` show.
inline const char* nameOf(Durability durability) { return durability == Durability::Sync ? "sync" : "buffered"; }

/// Each function declares its subcommands. The subcommand that is given on the command line leaves its exit code in
/// `exit_code`.
void addTableCommands(tools::Command& app, Session& session, int& exit_code);
void addObjectCommands(tools::Command& app, Session& session, int& exit_code);
void addTransferCommands(tools::Command& app, Session& session, int& exit_code);
void addRecoverCommand(tools::Command& app, Session& session, int& exit_code);
void addInspectCommand(tools::Command& app, Session& session, int& exit_code);
void addStatusCommand(tools::Command& app, Session& session, int& exit_code);

}  // namespace ramcore::rc
