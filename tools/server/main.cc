// ramcore-server: a master and a backup. Enlists at the coordinator, serves tablets, keeps replicas of what other
// servers hold, stops on SIGTERM.
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "log/memory/log_memory.h"
#include "runtime/real/memory_limit.h"
#include "tools/server/memory_choice.h"
#include "tools/server/server_flags.h"
#include "tools/server/server_process.h"
#include "tools/server/server_settings.h"
#include "tools/support/command_line.h"
#include "tools/support/process.h"
#include "tools/support/standard_output.h"

namespace ramcore::tools {
namespace {

std::string hostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "server";
}

int main(int argc, char** argv) {
  StandardOutput output(kServerProgram);
  ServerSettings settings;
  settings.process.listen = {"all://127.0.0.1:0"};
  settings.name = hostName();
  CommandLine app("A Ramcore server: holds tablets of the cluster's tables in memory", kServerProgram);
  addServerFlags(app, settings);
  int exit_code = 0;
  if (!parseFlags(app, argc, argv, exit_code)) return output.finish(exit_code);
  if (!app.isGiven("--min-replicas") && settings.replication.replicas == 1) settings.replication.min_replicas = 1;
  const auto chosen =
      chooseMemory(settings.memory_is_auto ? std::nullopt : std::optional<uint64_t>(settings.memory_bytes),
                   runtime::MemoryLimit::ofThisProcess());
  if (!chosen.ok()) return fail(kServerProgram, chosen.error());
  settings.memory_bytes = *chosen;
  std::unique_ptr<log::LogMemory> memory;
  while (true) {
    ServerProcess server(settings, std::move(memory));
    exit_code = server.run();
    if (!server.goesOn()) return exit_code;
    memory = server.takeMemory();
  }
}

}  // namespace
}  // namespace ramcore::tools

int main(int argc, char** argv) { return ramcore::tools::main(argc, argv); }
