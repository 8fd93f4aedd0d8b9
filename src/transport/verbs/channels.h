#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/clock.h"
#include "transport/session/timeout_rounds.h"
#include "transport/verbs/session.h"
#include "transport/verbs/verbs_memory.h"
#include "transport/verbs/verbs_queues.h"

namespace ramcore::transport::verbs {

/// The queue pairs of one endpoint by their numbers, from the handshake of a session until nothing of them can arrive
/// any more, and what transfers over them held. The channel of an open session belongs to the session; that of an ended
/// session belongs to this class. One thread.
class Channels {
 public:
  /// What `send_queues` refers to is borrowed, as is the rest.
  Channels(const SendQueue::Parts& send_queues, runtime::Clock& clock, VerbsMemory& memory, VerbsQueues& queues,
           TimeoutRounds& rounds)
      : send_queues_(send_queues), clock_(clock), memory_(memory), queues_(queues), rounds_(rounds) {}
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;
  /// The channels of all sessions have been given to this object before.
  ~Channels();

  /// Finds a channel by the number of its queue pair, also that of an ended session. Returns nullptr if there is none.
  Channel* find(uint32_t pair_number) const {
    const auto found = channels_.find(pair_number);
    return found == channels_.end() ? nullptr : found->second;
  }
  /// Number of channels, those of ended sessions included.
  size_t count() const { return channels_.size(); }

  // ---- handshakes

  /// To be called when a session in handshake has got a queue pair.
  void addPair(const QueuePair& pair, SessionId session) { greeting_pairs_[pair.number()] = session; }
  /// The session in handshake that has this queue pair.
  std::optional<SessionId> findGreeting(uint32_t pair_number) const {
    const auto found = greeting_pairs_.find(pair_number);
    return found == greeting_pairs_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Makes the channel of a session whose handshake is Ready.
  void open(Session& session);
  /// Ends the queue pair of a handshake that has failed.
  void dropPair(Greeting& greeting);

  // ---- ends

  /// Takes over the channel of a session that has ended. If this side has ended it in order, what was posted still
  /// leaves, and then the peer is told on the socket.
  void drain(std::unique_ptr<Channel> channel, Descriptor socket, bool in_order);
  /// Takes over the channel of a session that ends with the endpoint. Nothing is told to the peer.
  void keepToTheEnd(std::unique_ptr<Channel> channel) { draining_.push_back(std::move(channel)); }
  /// True if there are queue pairs whose sessions have ended, or never began.
  bool hasEnding() const { return !draining_.empty() || !dying_.empty(); }
  /// Ends drains by the clock. A queue pair that has not drained in time is put into error; if it does not drain in
  /// time then either, it is destroyed as it is.
  void endDrains(int64_t now_ns);
  /// Destroys queue pairs of which nothing can arrive any more: what arrives later under the number of one belongs to
  /// another one.
  /// @param nothing_arrived  all that had arrived has been taken
  void reap(bool nothing_arrived);
  /// The time by which endDrains() and reap() have to be called.
  /// @param soon_ns  for what has no time of its own
  int64_t nextNs(int64_t soon_ns) const;

 private:
  /// A queue pair whose session never began. It goes when nothing of it can arrive any more.
  struct DyingPair {
    std::unique_ptr<QueuePair> pair;
    uint64_t settled_at = 0;
  };

  void giveBack(Channel& channel);

  const SendQueue::Parts send_queues_;
  runtime::Clock& clock_;
  VerbsMemory& memory_;
  VerbsQueues& queues_;
  TimeoutRounds& rounds_;
  std::unordered_map<uint32_t, Channel*> channels_;         // by the number of the queue pair
  std::unordered_map<uint32_t, SessionId> greeting_pairs_;  // the same, of sessions that are not open yet
  std::vector<std::unique_ptr<Channel>> draining_;
  std::vector<DyingPair> dying_;
  uint32_t last_tag_ = 0;
};

}  // namespace ramcore::transport::verbs
