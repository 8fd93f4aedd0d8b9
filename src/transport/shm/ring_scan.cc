#include "transport/shm/ring_scan.h"

#include <algorithm>

namespace ramcore::transport::shm {
namespace {

bool hasWork(const Session& session) { return session.has_unread || session.channel->reader.hasNews(); }

}  // namespace

void RingScan::add(Session& session) { (hot_.size() < kHotMax ? hot_ : cold_).push_back(&session); }

void RingScan::remove(Session& session) {
  std::erase(hot_, &session);
  std::erase(cold_, &session);
  while (hot_.size() < kHotMax && !cold_.empty()) {
    hot_.push_back(cold_.back());
    cold_.pop_back();
  }
}

uint32_t RingScan::poll(RingHandler& handler, uint32_t message_max) {
  uint32_t delivered = 0;
  const size_t hot_count = hot_.size();
  if (hot_cursor_ >= hot_count) hot_cursor_ = 0;
  size_t at = hot_cursor_;
  for (size_t i = 0; i < hot_count; ++i) {
    Session& session = *hot_[at];
    if (++at == hot_count) at = 0;
    if (!hasWork(session)) {
      ++session.idle_rounds;
      continue;
    }
    session.idle_rounds = 0;
    delivered += handler.pollSession(session, message_max - delivered);
    if (delivered == message_max) {
      hot_cursor_ = at;  // the next round begins behind this session
      return delivered;
    }
  }
  const size_t looks = std::min(kColdPerRound, cold_.size());
  for (size_t i = 0; i < looks; ++i) {
    if (cold_cursor_ >= cold_.size()) cold_cursor_ = 0;
    const size_t index = cold_cursor_++;
    Session& session = *cold_[index];
    if (!hasWork(session)) continue;
    warmUp(index);
    session.idle_rounds = 0;
    delivered += handler.pollSession(session, message_max - delivered);
    if (delivered == message_max) break;
  }
  return delivered;
}

// The session takes the place of the one that has been idle longest, if that one is idle enough.
void RingScan::warmUp(size_t cold_index) {
  const auto idlest = std::max_element(
      hot_.begin(), hot_.end(), [](const Session* a, const Session* b) { return a->idle_rounds < b->idle_rounds; });
  if (idlest != hot_.end() && (*idlest)->idle_rounds >= kIdleRounds) std::swap(*idlest, cold_[cold_index]);
}

bool RingScan::isQuiet(const Session& session) const {
  if (session.has_unread || session.channel->reader.hasNews()) return false;
  return !session.is_blocked || !session.channel->writer.hasNewRoom();
}

bool RingScan::prepareSleep() {
  // First all flags, then all looks: either the peer sees the flag after it has published, or we see what it published.
  for (const auto* list : {&hot_, &cold_}) {
    for (Session* session : *list) {
      ++session->naps;
      session->channel->setWakefulness(Wakefulness::Asleep);
    }
  }
  for (const auto* list : {&hot_, &cold_}) {
    if (std::all_of(list->begin(), list->end(), [this](const Session* session) { return isQuiet(*session); })) continue;
    awake();
    return false;
  }
  return true;
}

void RingScan::awake() {
  for (const auto* list : {&hot_, &cold_}) {
    for (Session* session : *list) session->channel->setWakefulness(Wakefulness::Awake);
  }
}

}  // namespace ramcore::transport::shm
