// A program whose containers are those of -D_GLIBCXX_DEBUG: std::vector is another type then, of another size. All that
// crosses the library's border. Usage: debug_containers LOCATOR
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "ramcore/client.h"

#ifndef _GLIBCXX_DEBUG
#error "compile with -D_GLIBCXX_DEBUG"
#endif

namespace {

bool hasTable(ramcore::Client& client, const std::string& name, ramcore::Durability durability) {
  const auto tables = client.listTables();
  if (!tables) return false;
  for (const ramcore::TableInfo& table : *tables) {
    if (table.name == name) return table.durability == durability && bool(table.table);
  }
  return false;
}

int use(ramcore::Client& client) {
  const std::string name = "a table whose name does not fit into the string itself";
  auto table = client.createTable(name, ramcore::TableOptions{.durability = ramcore::Durability::Sync});
  if (!table) table = client.openTable(name);
  if (!table || !hasTable(client, name, ramcore::Durability::Sync)) return 10;
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back("key " + std::to_string(i));
  std::vector<ramcore::MutateItem> writes;
  for (const std::string& key : keys) {
    writes.push_back(
        {.kind = ramcore::MutateItem::Kind::Write, .table = *table, .key = key, .value = key, .condition = {}});
  }
  if (client.multiMutate(writes) != 0) return 11;
  std::vector<ramcore::ReadItem> reads;
  for (const std::string& key : keys) reads.push_back({.table = *table, .key = key});
  if (client.multiReadAsync(reads).get() != 0) return 12;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (reads[i].value != keys[i] || reads[i].version != writes[i].version) return 13;
  }
  size_t found = 0;
  ramcore::Scan scan = client.scan(*table);
  for (const ramcore::Object& object : scan) found += object.key == object.value ? 1 : 0;
  if (found != keys.size() || scan.status() != ramcore::Status::Ok) return 14;
  const auto value = client.read(*table, keys[7]);
  if (!value || value->value != keys[7]) return 15;
  return client.readAsync(*table, "no such key").get().status() == ramcore::Status::NotFound ? 0 : 16;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  ramcore::ClientOptions options;
  // If the library took containers of another layout, it would read the options behind the first container from wrong
  // offsets.
  options.coordinators = {"tcp://127.0.0.1:9", argv[1]};
  options.log_level = "no such level";
  const auto refused = ramcore::Client::connect(options);
  if (refused || refused.error().message.find("no such level") == std::string::npos) return 3;
  options.log_level = "off";
  options.coordinators = {argv[1]};
  auto client = ramcore::Client::connect(options);
  if (!client) {
    std::fprintf(stderr, "%s\n", client.error().message.c_str());
    return 1;
  }
  return use(*client);
}
