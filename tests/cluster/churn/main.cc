// Writes and removes keys that nobody reads, as fast as one client can, and some that stay.
//
//   cluster_churn --coordinator LOCATOR --cluster NAME --table T --keys N --lag N --kept N
//
// Each key is removed when --lag newer ones have been written. Key i of those that stay is "kept i", with the value
// "value i". One line when it is over.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "ramcore/client.h"
#include "tools/support/command_line.h"

namespace ramcore {
namespace {

constexpr uint64_t kBatch = 1000;
constexpr size_t kKeyBytes = 30;
constexpr size_t kValueBytes = 100;

struct Options {
  std::string coordinator;
  std::string cluster = "ramcore";
  std::string table;
  uint64_t keys = 0;
  uint64_t lag = 0;
  uint64_t kept = 0;
};

std::string keyOf(uint64_t number) {
  std::string key = "churn" + std::to_string(number);
  key.resize(kKeyBytes, '.');
  return key;
}

/// Whether all of it was done.
bool mutate(Client& client, Table table, MutateItem::Kind kind, uint64_t first, uint64_t count) {
  const std::string value(kValueBytes, 'v');
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < count; ++i) keys.push_back(keyOf(first + i));
  std::vector<MutateItem> items;
  for (const std::string& key : keys) {
    items.push_back({.kind = kind, .table = table, .key = key, .value = value, .condition = {}});
  }
  if (client.multiMutate(items) == 0) return true;
  for (const MutateItem& item : items) {
    if (item.status == Status::Ok) continue;
    std::fprintf(stderr, "%s: %s\n", std::string(item.key).c_str(), std::string(name(item.status)).c_str());
    break;
  }
  return false;
}

int run(const Options& options) {
  ClientOptions wanted;
  wanted.coordinators = {options.coordinator};
  wanted.cluster_name = options.cluster;
  wanted.default_timeout = std::chrono::seconds(60);
  auto connected = Client::connect(wanted);
  if (!connected.ok()) {
    std::fprintf(stderr, "%s\n", connected.error().message.c_str());
    return 1;
  }
  Client client = std::move(connected).value();
  const auto table = client.openTable(options.table);
  if (!table.ok()) return 1;
  for (uint64_t i = 0; i < options.kept; ++i) {
    if (!client.write(*table, "kept " + std::to_string(i), "value " + std::to_string(i)).ok()) return 1;
  }
  uint64_t removed = 0;
  for (uint64_t written = 0; written < options.keys; written += kBatch) {
    if (!mutate(client, *table, MutateItem::Kind::Write, written, kBatch)) return 1;
    for (; removed + options.lag <= written; removed += kBatch) {
      if (!mutate(client, *table, MutateItem::Kind::Remove, removed, kBatch)) return 1;
    }
  }
  for (; removed < options.keys; removed += kBatch) {
    if (!mutate(client, *table, MutateItem::Kind::Remove, removed, kBatch)) return 1;
  }
  std::printf("removed %llu\n", static_cast<unsigned long long>(removed));
  return 0;
}

}  // namespace
}  // namespace ramcore

int main(int argc, char** argv) {
  ramcore::Options options;
  ramcore::tools::CommandLine app("Writes and removes keys that nobody reads, and some that stay");
  app.addOption("--coordinator", options.coordinator).required();
  app.addOption("--cluster", options.cluster);
  app.addOption("--table", options.table).required();
  app.addOption("--keys", options.keys, "in thousands of keys").required();
  app.addOption("--lag", options.lag, "how many newer keys are there when one is removed");
  app.addOption("--kept", options.kept, "keys that stay");
  int exit_code = 0;
  if (!app.parseOrPrint(argc, argv, exit_code)) return exit_code;
  return ramcore::run(options);
}
