#include "rpc/dispatch.h"

#include "unit/rpc/rpc_fixture.h"

namespace ramcore::rpc {
namespace {

using transport::Role;
using wire::Opcode;

constexpr uint64_t kServer = 5;

class DispatchTest : public RpcTest {
 protected:
  void begin(uint32_t worker_count, HandOff hand_off = HandOff::Auto, uint32_t request_bytes_min = 16) {
    server =
        &add("server",
             {.role = Role::Server, .id = kServer, .worker_count = worker_count, .dispatch = {.hand_off = hand_off}});
    server->listen();
    echo.addTo(server->dispatch().services(),
               {.roles = allow({Role::Client, Role::Admin}), .request_bytes_min = request_bytes_min});
    client = &add("client", {});
    address = addressOf(*server, kServer);
  }
  // One call from start to end.
  std::unique_ptr<NotedCall> call(transport::TxMessage request) {
    auto noted = std::make_unique<NotedCall>();
    noted->request = std::move(request);
    start(*client, *noted, address);
    EXPECT_TRUE(await(*noted));
    return noted;
  }
  std::unique_ptr<NotedCall> ask(Opcode opcode, std::string_view body = "text", uint64_t target = kServer) {
    return call(request(*client, opcode, target, body));
  }

  EchoService echo;
  RpcProcess* server = nullptr;
  RpcProcess* client = nullptr;
  PeerAddress address;
};

TEST_F(DispatchTest, AnswersARequest) {
  begin(0);
  const auto answered = ask(Opcode::Read);
  EXPECT_EQ(answered->outcome(), Status::Ok);
  EXPECT_EQ(answered->text(), "text");
  EXPECT_TRUE(answered->was_sent);
  const OpcodeStats& stats = server->dispatch().stats(Opcode::Read);
  EXPECT_EQ(stats.requests.load(), 1u);
  EXPECT_EQ(stats.failures.load(), 0u);
  EXPECT_EQ(stats.queue_ns.count(), 1u);
  EXPECT_EQ(stats.service_ns.count(), 1u);
  EXPECT_EQ(server->dispatch().badRequests(), 0u);
}

TEST_F(DispatchTest, RefusesARoleThatMayNot) {
  begin(0);
  RpcProcess& other = add("other", {.role = Role::Server, .id = 9});
  NotedCall noted;
  noted.request = request(other, Opcode::Read, kServer, "text");
  start(other, noted, address);
  ASSERT_TRUE(await(noted));
  EXPECT_EQ(noted.outcome(), Status::BadRequest);
  EXPECT_TRUE(echo.heard.empty());
  EXPECT_EQ(server->dispatch().badRequests(), 1u);
}

TEST_F(DispatchTest, RefusesAnotherIncarnationsRequests) {
  begin(0);
  EXPECT_EQ(ask(Opcode::Read, "text", kServer + 1)->outcome(), Status::WrongServerId);
  EXPECT_EQ(ask(Opcode::Read, "text", 0)->outcome(), Status::WrongServerId);
  EXPECT_TRUE(echo.heard.empty());
  EXPECT_EQ(ask(Opcode::Read)->outcome(), Status::Ok);
}

TEST_F(DispatchTest, AnyTargetIsTakenWhereTheRulesSaySo) {
  begin(0);
  server->dispatch().services().add<&EchoService::echo>(Opcode::Ping, echo,
                                                        {.roles = allow({Role::Client}), .any_target = true});
  EXPECT_EQ(ask(Opcode::Ping, "", 77)->outcome(), Status::Ok);
}

TEST_F(DispatchTest, RefusesUnknownOpcodes) {
  begin(0);
  for (const int number : {0, 2, 23, 64, 127, 128, 1000, 65535}) {
    EXPECT_EQ(ask(static_cast<Opcode>(number))->outcome(), Status::BadRequest) << number;
  }
  EXPECT_EQ(server->dispatch().badRequests(), 8u);
  EXPECT_EQ(ask(Opcode::Read)->outcome(), Status::Ok) << "the session goes on";
}

TEST_F(DispatchTest, RefusesARequestTooShortForItsStruct) {
  begin(0, HandOff::Auto, sizeof(wire::RequestHeader) + 8);
  EXPECT_EQ(ask(Opcode::Read, "1234567")->outcome(), Status::BadRequest);
  EXPECT_EQ(ask(Opcode::Read, "12345678")->outcome(), Status::Ok);
}

TEST_F(DispatchTest, EndsASessionThatSendsNoHeader) {
  begin(0);
  for (size_t length : {size_t{0}, size_t{1}, size_t{15}}) {
    const std::string bytes(length, 'x');
    EXPECT_EQ(call(message(*client, asBytes(bytes)))->outcome(), Status::SessionLost) << length;
  }
  for (size_t reserved_at : {size_t{2}, size_t{7}}) {
    wire::RequestHeader header{.opcode = Opcode::Read, .target = ServerId(kServer)};
    std::vector<std::byte> bytes(sizeof(header));
    storeAs(bytes.data(), header);
    bytes[reserved_at] = std::byte{1};
    EXPECT_EQ(call(message(*client, bytes))->outcome(), Status::SessionLost) << reserved_at;
  }
  EXPECT_EQ(server->dispatch().badRequests(), 5u);
  EXPECT_EQ(ask(Opcode::Read)->outcome(), Status::Ok) << "others are served, and the same client may come back";
}

TEST_F(DispatchTest, AnAnswerTooLongForTheCallerIsReplaced) {
  begin(0);
  NotedCall noted;
  noted.settings.response_bytes_max = sizeof(wire::ResponseHeader) + 3;
  noted.request = request(*client, Opcode::Read, kServer, "text");
  start(*client, noted, address);
  ASSERT_TRUE(await(noted));
  EXPECT_EQ(noted.outcome(), Status::TooLarge);
  EXPECT_EQ(noted.response.messageBytes(), sizeof(wire::ResponseHeader));
  EXPECT_EQ(server->dispatch().stats(Opcode::Read).failures.load(), 1u);
  noted.ended = 0;
  noted.settings.response_bytes_max = sizeof(wire::ResponseHeader) + 4;
  noted.request = request(*client, Opcode::Read, kServer, "text");
  start(*client, noted, address);
  ASSERT_TRUE(await(noted));
  EXPECT_EQ(noted.text(), "text");
}

// The limit of the transport bounds an answer, too: giving the transport a longer one is a bug that ends the process.
TEST_F(DispatchTest, AnAnswerTooLongForTheTransportIsReplacedWhateverTheCallerTakes) {
  begin(0);
  struct Verbose {
    void answer(Request request) {
      most = request.responseBytesMax();
      has_room = static_cast<bool>(request.allocate(uint64_t{UINT32_MAX} + 1 + sizeof(wire::ResponseHeader)));
      if (is_empty) return request.reply(transport::TxMessage());
      transport::TxMessage response = request.allocate(sizeof(wire::ResponseHeader));
      response.appendHead(wire::ResponseHeader{.status = Status::Ok});
      for (const uint32_t bytes : chunks) response.appendChunk({.address = value.data(), .bytes = bytes});
      request.reply(std::move(response));
    }
    std::vector<std::byte> value = std::vector<std::byte>(wire::kMessageBytesMax);
    std::vector<uint32_t> chunks;
    bool is_empty = false;
    uint32_t most = 0;
    bool has_room = true;
  } verbose;
  server->dispatch().services().add<&Verbose::answer>(Opcode::Enlist, verbose, {.roles = allow({Role::Client})});
  const auto askForAnything = [&] {
    NotedCall noted;
    noted.settings.response_bytes_max = UINT32_MAX;
    noted.request = request(*client, Opcode::Enlist, kServer, "text");
    start(*client, noted, address);
    EXPECT_TRUE(await(noted));
    return noted.outcome();
  };
  verbose.chunks = {wire::kMessageBytesMax - sizeof(wire::ResponseHeader) + 1};
  EXPECT_EQ(askForAnything(), Status::TooLarge);
  EXPECT_EQ(verbose.most, wire::kMessageBytesMax);
  EXPECT_FALSE(verbose.has_room) << "the length is not cut to 32 bits";
  // A length that does not fit into 32 bits.
  verbose.chunks = {0xF000'0000, 0x1000'0000, 16};
  EXPECT_EQ(askForAnything(), Status::TooLarge);
  verbose.is_empty = true;
  EXPECT_EQ(askForAnything(), Status::TooLarge);
  verbose.is_empty = false;
  verbose.chunks = {wire::kMessageBytesMax - sizeof(wire::ResponseHeader)};
  EXPECT_EQ(askForAnything(), Status::Ok);
}

struct PriorityNotes {
  void note(Request request) {
    seen.push_back(request.message().priority);
    request.reply(Status::Ok);
  }
  std::vector<runtime::Priority> seen;
};

TEST_F(DispatchTest, UsersCannotClaimThePrioritiesOfTheClustersOwnProcesses) {
  using runtime::Priority;
  PriorityNotes notes;
  begin(0);
  server->dispatch().services().add<&PriorityNotes::note>(
      Opcode::Enlist, notes, {.roles = allow({Role::Client, Role::Admin, Role::Server, Role::Coordinator})});
  for (const Role role : {Role::Client, Role::Admin, Role::Server, Role::Coordinator}) {
    RpcProcess& peer = add("peer" + std::to_string(static_cast<int>(role)), {.role = role, .id = 9});
    notes.seen.clear();
    for (const Priority claimed : {Priority::Membership, Priority::Waited, Priority::Client, Priority::Background}) {
      NotedCall noted;
      noted.settings.priority = claimed;
      noted.request = request(peer, Opcode::Enlist, kServer, "text");
      start(peer, noted, address);
      ASSERT_TRUE(await(noted));
      ASSERT_EQ(noted.outcome(), Status::Ok);
    }
    const bool is_user = role == Role::Client || role == Role::Admin;
    EXPECT_EQ(notes.seen,
              is_user ? (std::vector{Priority::Client, Priority::Client, Priority::Client, Priority::Background})
                      : (std::vector{Priority::Membership, Priority::Waited, Priority::Client, Priority::Background}));
  }
}

TEST_F(DispatchTest, RequestsThatArriveTogetherReachABatchHandlerTogether) {
  begin(0);
  ASSERT_EQ(ask(Opcode::Read)->outcome(), Status::Ok);
  // All of them wait in the server's inbox when it runs again.
  server->node.pause();
  std::deque<NotedCall> calls(24);
  client->onDispatch([&] {
    for (size_t i = 0; i < calls.size(); ++i) {
      // Two opcodes alternate; the batch handler is of one of them.
      const Opcode opcode = i % 2 == 0 ? Opcode::Read : Opcode::Write;
      calls[i].request = request(*client, opcode, kServer, std::to_string(i));
      client->caller->connection(address).start(calls[i]);
    }
  });
  runFor(runtime::kNanosPerMilli);
  server->node.resume();
  for (NotedCall& noted : calls) ASSERT_TRUE(await(noted));
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i].text(), std::to_string(i));
  EXPECT_EQ(echo.batches, std::vector<size_t>{12});
  // Within an opcode the order of arrival stays.
  std::vector<std::string> reads;
  for (const std::string& text : echo.heard) {
    if (text != "text" && std::stoi(text) % 2 == 0) reads.push_back(text);
  }
  EXPECT_TRUE(std::is_sorted(reads.begin(), reads.end(),
                             [](const auto& a, const auto& b) { return std::stoi(a) < std::stoi(b); }));
}

TEST_F(DispatchTest, ABatchIsCutToWhatAHandlerTakes) {
  begin(0);
  ASSERT_EQ(ask(Opcode::Read)->outcome(), Status::Ok);
  server->node.pause();
  std::deque<NotedCall> calls(30);
  client->onDispatch([&] {
    for (NotedCall& noted : calls) {
      noted.request = request(*client, Opcode::Read, kServer, "x");
      client->caller->connection(address).start(noted);
    }
  });
  runFor(runtime::kNanosPerMilli);
  server->node.resume();
  for (NotedCall& noted : calls) ASSERT_TRUE(await(noted));
  EXPECT_EQ(echo.batches, (std::vector<size_t>{16, 14}));
}

TEST_F(DispatchTest, LongRequestsGoToAWorkerAndTheirAnswersComeBack) {
  begin(2);
  EXPECT_EQ(ask(Opcode::MultiRead, "long")->text(), "long");
  EXPECT_EQ(ask(Opcode::Read, "short")->text(), "short");
  EXPECT_EQ(echo.on_dispatch, (std::vector<bool>{false, true}));
  EXPECT_EQ(server->dispatch().stats(Opcode::MultiRead).requests.load(), 1u);
  EXPECT_GT(server->dispatch().stats(Opcode::MultiRead).queue_ns.sum(), 0u) << "the way to a worker takes time";
}

TEST_F(DispatchTest, WithoutWorkersLongRequestsRunHere) {
  begin(0);
  EXPECT_EQ(ask(Opcode::MultiRead)->text(), "text");
  EXPECT_EQ(echo.on_dispatch, std::vector<bool>{true});
}

TEST_F(DispatchTest, HandOffModesDecideForShortRequests) {
  begin(1, HandOff::Workers);
  EXPECT_EQ(ask(Opcode::Read)->text(), "text");
  EXPECT_EQ(echo.on_dispatch, std::vector<bool>{false});
}

TEST_F(DispatchTest, InlineModeKeepsLongRequestsHere) {
  begin(1, HandOff::Inline);
  EXPECT_EQ(ask(Opcode::MultiRead)->text(), "text");
  EXPECT_EQ(echo.on_dispatch, std::vector<bool>{true});
}

TEST_F(DispatchTest, AHandlerMayPassItsRequestToAWorker) {
  begin(1);
  EXPECT_EQ(ask(Opcode::Increment)->text(), "text");
  EXPECT_EQ(echo.handed_on, 1);
  EXPECT_EQ(echo.on_dispatch, std::vector<bool>{false});
}

TEST_F(DispatchTest, AnOpcodeMayBeBoundToTheDispatchThread) {
  for (const HandOff mode : {HandOff::Auto, HandOff::Workers}) {
    SCOPED_TRACE(static_cast<int>(mode));
    EchoService bound;
    RpcProcess& other = add("bound" + std::to_string(static_cast<int>(mode)),
                            {.role = Role::Server, .id = kServer, .worker_count = 1, .dispatch = {.hand_off = mode}});
    other.listen();
    bound.addTo(other.dispatch().services(), {.roles = allow({Role::Client}), .dispatch_only = true});
    client = &add("client of " + other.node.name(), {});
    address = addressOf(other, kServer);
    EXPECT_EQ(ask(Opcode::Write)->text(), "text");
    EXPECT_EQ(ask(Opcode::MultiRead)->text(), "text");
    EXPECT_EQ(bound.on_dispatch, (std::vector<bool>{true, true}));
  }
}

TEST_F(DispatchTest, WaitingRequestsOfALostSessionAreNotStarted) {
  begin(1);
  RpcProcess& other = add("other", {});
  ASSERT_EQ(ask(Opcode::Read)->outcome(), Status::Ok);
  server->workers.front()->pause();
  NotedCall lost;
  lost.request = request(*client, Opcode::MultiRead, kServer, "lost");
  start(*client, lost, address);
  NotedCall kept;
  kept.request = request(other, Opcode::MultiRead, kServer, "kept");
  start(other, kept, address);
  runFor(5 * runtime::kNanosPerMilli);  // both wait for the worker
  ASSERT_TRUE(kept.was_sent && lost.was_sent && echo.heard.size() == 1);
  EXPECT_EQ(network.cut("client", "server"), 1u);
  ASSERT_TRUE(await(lost));
  runFor(runtime::kNanosPerMilli);
  server->workers.front()->resume();
  ASSERT_TRUE(await(kept));
  EXPECT_EQ(kept.text(), "kept");
  EXPECT_EQ(echo.heard, (std::vector<std::string>{"text", "kept"}));
  ASSERT_TRUE(runUntil([&] { return !server->dispatch().hasRequests(); }));
  EXPECT_EQ(server->dispatch().orphanedRequests(), 1u);
  // A client that comes back, and whose session gets the same index, is served.
  EXPECT_EQ(ask(Opcode::MultiRead, "again")->text(), "again");
}

TEST_F(DispatchTest, CoroutineHandlersAnswerLater) {
  begin(1);
  NotedCall slow;
  slow.request = request(*client, Opcode::Remove, kServer, "slow");
  start(*client, slow, address);
  EXPECT_EQ(ask(Opcode::Read, "quick")->text(), "quick");
  EXPECT_EQ(slow.ended, 0);
  ASSERT_TRUE(await(slow));
  EXPECT_EQ(slow.text(), "slow");
  EXPECT_EQ(echo.heard, (std::vector<std::string>{"quick", "slow"}));
}

TEST_F(DispatchTest, AnAnswerToALostSessionGoesNowhere) {
  begin(0);
  NotedCall noted;
  noted.request = request(*client, Opcode::Scan, kServer, "kept");
  start(*client, noted, address);
  ASSERT_TRUE(runUntil([&] { return echo.kept.size() == 1; }));
  EXPECT_EQ(network.cut("client", "server"), 1u);
  ASSERT_TRUE(await(noted));
  EXPECT_EQ(noted.outcome(), Status::SessionLost);
  EXPECT_TRUE(noted.was_sent);
  server->onDispatch([&] { echo.answerKept(); });
  EXPECT_EQ(ask(Opcode::Read)->text(), "text");
}

TEST_F(DispatchTest, ListsWhatIsInService) {
  begin(0);
  NotedCall scan;
  scan.request = request(*client, Opcode::Scan, kServer, "kept");
  start(*client, scan, address);
  ASSERT_TRUE(runUntil([&] { return echo.kept.size() == 1; }));
  NotedCall slow;
  slow.request = request(*client, Opcode::Remove, kServer, "slow");
  start(*client, slow, address);
  ASSERT_TRUE(runUntil([&] { return server->dispatch().requestsInService().size() == 2; }));
  const auto listed = server->dispatch().requestsInService();
  EXPECT_EQ(listed[0].opcode, Opcode::Scan);
  EXPECT_EQ(listed[1].opcode, Opcode::Remove);
  EXPECT_GT(listed[0].age_ns, listed[1].age_ns);
  server->onDispatch([&] { echo.answerKept(); });
  ASSERT_TRUE(await(scan));
  ASSERT_TRUE(await(slow));
  EXPECT_TRUE(server->dispatch().requestsInService().empty());
}

TEST_F(DispatchTest, RefusesRequestsAtTheEndAndFinishesThoseInService) {
  begin(0);
  NotedCall noted;
  noted.request = request(*client, Opcode::Scan, kServer, "kept");
  start(*client, noted, address);
  ASSERT_TRUE(runUntil([&] { return echo.kept.size() == 1; }));
  server->onDispatch([&] { server->dispatch().refuseRequests(); });
  EXPECT_TRUE(server->dispatch().hasRequests());
  EXPECT_EQ(ask(Opcode::Read)->outcome(), Status::RetryLater);
  EXPECT_TRUE(echo.heard.empty());
  server->onDispatch([&] { echo.answerKept(); });
  ASSERT_TRUE(await(noted));
  EXPECT_EQ(noted.outcome(), Status::Ok);
  EXPECT_FALSE(server->dispatch().hasRequests());
  EXPECT_EQ(server->dispatch().badRequests(), 0u);
}

TEST_F(DispatchTest, CountsFailures) {
  begin(0);
  struct Refuser {
    void refuse(Request request) { request.reply(Status::NoSpace, 250); }
  } refuser;
  server->dispatch().services().add<&Refuser::refuse>(Opcode::Enlist, refuser, {.roles = allow({Role::Client})});
  const auto refused = ask(Opcode::Enlist);
  EXPECT_EQ(refused->outcome(), Status::NoSpace);
  EXPECT_EQ(loadAs<wire::ResponseHeader>(refused->response.head().data()).retry_after_us, 250u);
  EXPECT_EQ(server->dispatch().stats(Opcode::Enlist).failures.load(), 1u);
}

TEST_F(DispatchTest, SleepsOnlyWhenThereIsNothingToDo) {
  begin(0);
  struct Nothing : runtime::Job {
    Nothing() : Job([](runtime::Job&) {}) {}
  } job;
  ASSERT_TRUE(server->driver.drain(1000));
  EXPECT_TRUE(server->dispatch().prepareSleep());
  server->dispatch().awake();
  server->dispatch().post(job, runtime::Priority::Client);
  EXPECT_FALSE(server->dispatch().prepareSleep());
  EXPECT_TRUE(server->dispatch().step());
  EXPECT_TRUE(server->dispatch().prepareSleep());
  server->dispatch().awake();
}

/// Long background work cuts itself into slices; requests are looked for in between.
TEST_F(DispatchTest, OneBackgroundJobInEachRound) {
  begin(0);
  ASSERT_TRUE(server->driver.drain(1000));
  struct Again : runtime::Job {
    Again(Dispatch& dispatch, runtime::Priority priority)
        : Job([](runtime::Job& job) {
            auto& self = static_cast<Again&>(job);
            if (++self.runs < 100) self.dispatch.post(self, self.priority);
          }),
          dispatch(dispatch),
          priority(priority) {}
    Dispatch& dispatch;
    const runtime::Priority priority;
    int runs = 0;
  };
  Again background(server->dispatch(), runtime::Priority::Background);
  Again urgent(server->dispatch(), runtime::Priority::Client);
  server->dispatch().post(background, runtime::Priority::Background);
  for (int round = 1; round <= 5; ++round) {
    EXPECT_TRUE(server->dispatch().step());
    EXPECT_EQ(background.runs, round);
  }
  server->dispatch().post(urgent, runtime::Priority::Client);
  EXPECT_TRUE(server->dispatch().step());
  EXPECT_GT(urgent.runs, 10);
  while (server->dispatch().step()) {
  }
  EXPECT_EQ(background.runs, 100);
  EXPECT_EQ(urgent.runs, 100);
}

using DispatchDeathTest = DispatchTest;

TEST_F(DispatchDeathTest, ADroppedRequestIsABug) {
  EXPECT_DEATH(
      {
        RequestRecord record(nullptr);
        const Request dropped(&record);
      },
      "dropped without an answer");
}

}  // namespace
}  // namespace ramcore::rpc
