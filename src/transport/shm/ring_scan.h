#pragma once

#include <vector>

#include "transport/shm/session.h"

namespace ramcore::transport::shm {

/// Is called by a scan for each session whose ring has something in it.
class RingHandler {
 public:
  /// Delivers up to `message_max` messages of the session and returns how many there were.
  virtual uint32_t pollSession(Session& session, uint32_t message_max) = 0;

 protected:
  ~RingHandler() = default;
};

/// Decides which rings are looked at. Up to kHotMax sessions, those that carried messages last, are looked at in every
/// round, the others a few at a time in turn: so a round has a bound, however many sessions are idle, and the first
/// message of an idle session waits for at most (sessions / kColdPerRound) rounds. One thread.
class RingScan {
 public:
  static constexpr size_t kHotMax = 64;
  static constexpr size_t kColdPerRound = 8;
  /// A session that found nothing in this many rounds may lose its place to one that did.
  static constexpr uint32_t kIdleRounds = 1024;

  /// Both only between rounds.
  void add(Session& session);
  void remove(Session& session);

  uint32_t poll(RingHandler& handler, uint32_t message_max);

  /// Publishes "asleep" to every peer and looks at all rings once more. Returns false, awake again, if there is
  /// something to do.
  bool prepareSleep();
  void awake();

 private:
  bool isQuiet(const Session& session) const;
  void warmUp(size_t cold_index);

  std::vector<Session*> hot_;
  std::vector<Session*> cold_;
  size_t hot_cursor_ = 0;
  size_t cold_cursor_ = 0;
};

}  // namespace ramcore::transport::shm
