#include "tools/rc/server_json.h"

#include <gtest/gtest.h>

#include <string>

namespace ramcore::rc {
namespace {

client::ServerStatus serverThatAnswers() {
  client::ServerStatus server;
  server.id = ServerId(3);
  server.name = "s3";
  server.locators = {"tcp://127.0.0.1:1"};
  server.is_alive = true;
  server.has_answered = true;
  server.memory_bytes = ~uint64_t{0};
  server.live_bytes = 1000;
  server.live_bytes_max = 2000;
  server.tombstone_bytes = 200;
  server.result_bytes = 50;
  server.cleaner_copied_bytes = 11;
  server.cleaner_freed_bytes = 12;
  server.compaction_copied_bytes = 13;
  server.compaction_freed_bytes = 14;
  server.appended_bytes = 400;
  server.replica_bytes = 600;
  server.pinned_bytes = 15;
  server.damaged_entries = 16;
  server.damaged_now = 17;
  server.objects = 4;
  server.index_bytes = 50;
  server.requests = 18;
  server.transports = {{.name = "tcp",
                        .sessions = 2,
                        .open = {{.peer_role = transport::Role::Admin, .peer_id = 9, .peer_address = "here"}}},
                       {.name = "shm", .sessions = 1, .open = {}}};
  server.uptime_ns = 1'500'000'000;
  server.replicas_wanted = 3;
  server.replicas_least = 2;
  server.segments_repairing = 19;
  server.frames_total = 20;
  server.frames_free = 21;
  server.storage_bytes = 22;
  server.storage_bytes_needed = 23;
  server.storage_failed = true;
  server.is_short_of_places = true;
  return server;
}

TEST(ServerJson, HasAllNumbersInTheirOrder) {
  EXPECT_EQ(serverJson(serverThatAnswers()).dump(),
            R"({"id":"3","name":"s3","locators":["tcp://127.0.0.1:1"],"alive":true,"answers":true,)"
            R"("memory_bytes":18446744073709551615,"live_bytes":1000,"live_bytes_max":2000,"object_bytes":750,)"
            R"("tombstone_bytes":200,"result_bytes":50,"cleaner_copied_bytes":11,"cleaner_freed_bytes":12,)"
            R"("compaction_copied_bytes":13,"compaction_freed_bytes":14,"appended_bytes":400,"replica_bytes":600,)"
            R"("write_amplification":1.5,"pinned_bytes":15,"damaged_entries":16,"damaged_now":17,"objects":4,)"
            R"("index_bytes":50,"overhead_bytes_per_object":34.5,"requests":18,"sessions":3,)"
            R"("transports":["tcp","shm"],"sessions_by_transport":{"tcp":2,"shm":1},"open_sessions":)"
            R"([{"peer_role":"admin","peer_id":"9","peer_address":"here","transport":"tcp"}],"uptime_s":1.5,)"
            R"("replicas_wanted":3,"replicas_least":2,"segments_repairing":19,"frames_total":20,"frames_free":21,)"
            R"("storage_bytes":22,"storage_bytes_needed":23,"storage_failed":true,"takes_writes":true,)"
            R"("is_short_of_places":true})");
}

TEST(ServerJson, AServerThatIsSilentTakesNoWritesAndHasZeros) {
  const tools::Json json = serverJson(client::ServerStatus());
  EXPECT_EQ(json.at("id").asString(), "none");
  EXPECT_EQ(json.at("takes_writes").dump(), "false");
  EXPECT_EQ(json.at("uptime_s").dump(), "0.0");
  EXPECT_EQ(json.at("write_amplification").dump(), "0.0");
  EXPECT_EQ(json.at("open_sessions").dump(), "[]");
  EXPECT_EQ(json.at("sessions_by_transport").dump(), "{}");
  client::ServerStatus short_of_servers = serverThatAnswers();
  short_of_servers.has_too_few = true;
  EXPECT_EQ(serverJson(short_of_servers).at("takes_writes").dump(), "false");
}

}  // namespace
}  // namespace ramcore::rc
