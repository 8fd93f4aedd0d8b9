// A short tour of the client library. Usage: example LOCATOR, for example: example tcp://127.0.0.1:11100
#include <cstdio>
#include <string>
#include <vector>

#include "ramcore/client.h"

namespace {

using ramcore::Status;

int fail(const char* what, Status status) {
  std::fprintf(stderr, "%s: %.*s\n", what, static_cast<int>(ramcore::name(status).size()),
               ramcore::name(status).data());
  return 1;
}

// Adds to a number that several programs change: read, compute, write if nobody was faster.
Status appendTo(ramcore::Client& client, ramcore::Table table, const std::string& key, const std::string& text) {
  for (;;) {
    ramcore::CallOptions options;
    std::string value;
    const auto version = client.read(table, key, value);
    if (version) {
      options.condition = ramcore::Condition::versionEquals(*version);
    } else if (version.error() == Status::NotFound) {
      options.condition = ramcore::Condition::mustNotExist();
    } else {
      return version.error();
    }
    const auto written = client.write(table, key, value + text, options);
    const bool was_overtaken = written.status == Status::WrongVersion || written.status == Status::ObjectExists ||
                               written.status == Status::NotFound;
    if (!was_overtaken) return written.status;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example LOCATOR\n");
    return 2;
  }
  ramcore::ClientOptions options;
  options.coordinators = {argv[1]};
  auto connected = ramcore::Client::connect(options);
  if (!connected) {
    std::fprintf(stderr, "%s\n", connected.error().message.c_str());
    return 1;
  }
  ramcore::Client& client = *connected;

  auto table = client.createTable("example");
  if (table.status() == Status::TableExists) table = client.openTable("example");
  if (!table) return fail("table", table.error());

  // One object.
  const auto written = client.write(*table, "greeting", "hello");
  if (!written) return fail("write", written.status);
  const auto found = client.read(*table, "greeting");
  if (!found) return fail("read", found.error());
  std::printf("greeting = %s, version %llu\n", found->value.c_str(), static_cast<unsigned long long>(found->version));
  if (const Status status = appendTo(client, *table, "greeting", ", world"); status != Status::Ok) {
    return fail("append", status);
  }
  const auto counted = client.increment(*table, "visits", 1);
  if (!counted) return fail("increment", counted.status);
  std::printf("visits = %lld\n", static_cast<long long>(counted.value));

  // Several objects at once: each has its own outcome.
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<ramcore::MutateItem> writes;
  for (const std::string& key : keys) {
    ramcore::MutateItem& item = writes.emplace_back();
    item.table = *table;
    item.key = key;
    item.value = key;
  }
  if (client.multiMutate(writes) != 0) return fail("multi-write", writes.front().status);

  // Futures: two reads on their way at the same time.
  auto first = client.readAsync(*table, "key1");
  auto second = client.readAsync(*table, "key2");
  const auto first_result = first.get();
  const auto second_result = second.get();
  if (!first_result || !second_result)
    return fail("reads", first_result ? second_result.status() : first_result.status());

  // Everything there is.
  size_t objects = 0;
  ramcore::Scan scan = client.scan(*table);
  for (const ramcore::Object& object : scan) {
    if (!object.key.empty()) ++objects;
  }
  if (scan.status() != Status::Ok) return fail("scan", scan.status());
  std::printf("%zu objects\n", objects);

  const Status dropped = client.dropTable("example");
  return dropped == Status::Ok ? 0 : fail("drop", dropped);
}
