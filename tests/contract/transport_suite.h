#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace ramcore::transport::contract {

// The contract of transport.h as one suite of tests over every transport. A transport joins with a file
// <name>_factory.cc that derives from World and has one line at its end:
//
//   const Registration kRegistration({"tcp", &makeTcpWorld, {.has_sleeper = true}});
//
// Tests ask limits() and Abilities, never the name.

/// One side of sessions: an endpoint and how its thread sleeps. In production that is a process.
class Node {
 public:
  virtual ~Node() = default;
  virtual Endpoint& endpoint() = 0;
  /// How the thread of this endpoint sleeps; nullptr if there is no such thing (the simulator).
  virtual Sleeper* sleeper() { return nullptr; }
};

struct NodeOptions {
  Identity identity;
  uint16_t slots_per_session = 8;
  uint32_t sessions_max = 4096;  ///< where Abilities say that sessions are bounded
};

/// Endpoints of one transport that can reach each other.
class World {
 public:
  virtual ~World() = default;
  /// The identity is borrowed until the node is destroyed. Destroying a node is the death of its process.
  virtual std::unique_ptr<Node> makeNode(const NodeOptions& options, const Identity& identity) = 0;
  /// The locator at which the `number`-th listener of a test listens. The same number gives the same place once
  /// listen() has resolved it.
  virtual Locator placeToListen(Node& node, int number) = 0;
  /// A place where nobody listens.
  virtual Locator emptyPlace() = 0;
  virtual int64_t nowNs() = 0;
  /// From now on the network copies, delays and reorders messages, if this world can do that.
  virtual void disturb() {}
  /// For worlds in which messages are received without the process: from now on none is received at `node` until
  /// `reads` is true.
  virtual void setReading(Node& node, bool reads) {
    (void)node;
    (void)reads;
  }
  /// Lets time pass where it does not pass by itself.
  virtual void passTime() {}
};

/// The abilities of a transport that limits() does not tell.
struct Abilities {
  bool has_sleeper = false;
  bool has_secrets = true;       ///< its handshake uses the cluster secret
  bool has_cluster_name = true;  ///< its handshake compares the names of the clusters
  bool any_thread_release = true;
  bool has_sessions_max = true;
};

struct Subject {
  std::string name;
  std::unique_ptr<World> (*make_world)();
  Abilities abilities;
};
std::vector<Subject>& subjects();

struct Registration {
  explicit Registration(Subject subject) { subjects().push_back(std::move(subject)); }
};

/// Records what an endpoint delivers.
class RecordingSink : public MessageSink {
 public:
  void onRequests(std::span<RxMessage> requests) override;
  void onSessionOpen(SessionId session) override { opened.push_back(session); }
  void onSessionLost(SessionId session, Status reason) override { lost.emplace_back(session, reason); }

  std::function<void(RxMessage&)> on_request;  ///< by default requests are held
  std::vector<RxMessage> held;
  std::vector<SessionId> opened;
  std::vector<std::pair<SessionId, Status>> lost;
  uint64_t request_count = 0;
  size_t batch_max = 0;
};

/// A call whose outcome is kept.
struct TestCall : PendingCall {
  TestCall() : PendingCall(&TestCall::onComplete) {}
  static void onComplete(PendingCall& call, Status status, RxMessage response);
  int completions = 0;
  Status status = Status::Internal;
  RxMessage response;
};

/// Memory that chunks are borrowed from if the world's transports have registered it; from the heap otherwise, or when
/// it is used up.
struct ChunkArena {
  static constexpr size_t kBytes = 192u << 20;

  std::byte* base = nullptr;
  size_t used_bytes = 0;
  RegionId region = 0;
};
ChunkArena& chunkArena();

/// Counts how often each chunk that was borrowed from it was released, and holds the chunks' bytes.
class CountingOwner final : public ChunkOwner {
 public:
  ~CountingOwner();
  /// A chunk of `bytes` bytes that continue the pattern at `first`.
  Chunk borrow(uint32_t bytes, uint8_t first);
  void releaseChunk(uint64_t token) noexcept override;
  size_t borrowedCount() const { return borrowed_.size(); }
  size_t releasedOnce() const;
  bool isAnyReleasedTwice() const;

 private:
  struct Borrowed {
    std::vector<std::byte> own;  // unless it is from the arena
    std::span<std::byte> bytes;
    int releases = 0;
  };
  std::vector<std::unique_ptr<Borrowed>> borrowed_;
};

/// One process of a test.
struct Process {
  Process(World& where, Role role, uint64_t id, std::string secret = "", uint16_t slots = 8,
          std::string cluster_name = "contract", uint32_t sessions_max = NodeOptions().sessions_max);
  ~Process() { die(); }

  void step();
  /// As when the process is killed.
  void die();
  Endpoint& endpoint() { return node->endpoint(); }
  void echoRequests();

  World& world;
  Identity identity;
  std::unique_ptr<Node> node;
  RecordingSink sink;
};

/// `bytes` bytes of a pattern that starts with `first`: a head of at most 64 and chunks of `owner`.
TxMessage makeMessage(Endpoint& endpoint, CountingOwner& owner, uint32_t bytes, uint8_t first,
                      uint32_t chunk_bytes = 300'000);
bool hasPattern(const RxMessage& message, uint32_t bytes, uint8_t first);

/// Steps until `condition` holds; false if it does not within half a minute.
bool stepUntil(World& world, const std::vector<Process*>& processes, const std::function<bool()>& condition);

}  // namespace ramcore::transport::contract
