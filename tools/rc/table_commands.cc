#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "coordinator/tablets/table_manager.h"
#include "tools/rc/commands.h"
#include "tools/support/command_line.h"

namespace ramcore::rc {
namespace {

int create(Session& session, const std::string& name, const TableOptions& options) {
  const auto client = session.client();
  if (!client) return session.fail(client.error());
  const auto made = (*client)->createTable(name, options);
  if (made.status() == Status::TableExists) {
    return session.fail({made.error(), "table '" + name + "' exists already; use it, or drop it first"});
  }
  if (!made) return session.fail(made.error(), "table '" + name + "'");
  std::printf("table '%s' has id %u\n", name.c_str(), made->id);
  return tools::kExitOk;
}

int drop(Session& session, const std::string& name) {
  const auto client = session.client();
  if (!client) return session.fail(client.error());
  const Status status = (*client)->dropTable(name);
  if (status != Status::Ok) return session.fail(status, "table '" + name + "'");
  std::printf("table '%s' is dropped\n", name.c_str());
  return tools::kExitOk;
}

int list(Session& session) {
  const auto client = session.client();
  if (!client) return session.fail(client.error());
  auto tables = (*client)->listTables();
  if (!tables) return session.fail(tables.error(), "the list of tables");
  std::sort(tables->begin(), tables->end(), [](const TableInfo& a, const TableInfo& b) { return a.name < b.name; });
  for (const TableInfo& table : *tables) {
    std::printf("%-10u %-9s %s\n", table.table.id, nameOf(table.durability), table.name.c_str());
  }
  return tools::kExitOk;
}

}  // namespace

void addTableCommands(tools::Command& app, Session& session, int& exit_code) {
  struct Values {
    std::string name;
    TableOptions options;
    std::string durability = "buffered";
  };
  auto values = std::make_shared<Values>();
  tools::Command create_command = app.addCommand("create", "Creates a table");
  create_command.addOption("TABLE", values->name, "Its name").required();
  create_command
      .addOption("--tablets", values->options.tablet_count,
                 "Number of tablets, which are spread over the servers; 0: one per server")
      .showDefault()
      .inRange(0U, coordinator::TableManager::kTabletsPerTableMax);
  create_command
      .addOption("--durability", values->durability,
                 "What answers about the table wait for. buffered: the page caches of all servers with replicas; sync: "
                 "their disks, so that the table survives a power failure of all machines at once")
      .showDefault()
      .oneOf({std::string(nameOf(Durability::Buffered)), std::string(nameOf(Durability::Sync))});
  create_command.onGiven([&, values] {
    if (values->durability == nameOf(Durability::Sync)) values->options.durability = Durability::Sync;
    exit_code = create(session, values->name, values->options);
  });

  tools::Command drop_command = app.addCommand("drop", "Drops a table and all its objects");
  drop_command.addOption("TABLE", values->name, "Its name").required();
  drop_command.onGiven([&, values] { exit_code = drop(session, values->name); });

  tools::Command list_command = app.addCommand("list", "Lists the tables: id, durability and name");
  list_command.onGiven([&] { exit_code = list(session); });
}

}  // namespace ramcore::rc
