#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "transport/message.h"

namespace ramcore::transport {

/// The sessions of one endpoint, by their ids. The place of a session that has ended is used again with another
/// generation, so that its id finds nothing any more. One thread. Finding a session costs two loads.
/// @tparam Pointer  std::unique_ptr or std::shared_ptr of a session, which has a member `id`
template <typename Pointer>
class SessionTable {
 public:
  using Session = typename Pointer::element_type;

  /// Returns nullptr if the session has been removed.
  Session* find(SessionId id) const {
    Session* const session = atIndex(id.index);
    return session != nullptr && session->id == id ? session : nullptr;
  }
  /// Returns nullptr if the session has been removed or its state is not Session::State::Open.
  Session* findOpen(SessionId id) const {
    Session* const session = find(id);
    return session != nullptr && session->state == Session::State::Open ? session : nullptr;
  }
  /// Returns the session whose id has this index, or nullptr.
  Session* atIndex(uint64_t index) const { return index < sessions_.size() ? sessions_[index].get() : nullptr; }
  /// The session has not been removed (checked).
  const Pointer& pointerTo(SessionId id) const {
    RC_CHECK(find(id) != nullptr);
    return sessions_[id.index];
  }

  /// Adds the session that `make` returns for its id. Returns the pointer in the table, valid until the next change.
  /// @param make  Pointer(SessionId); must not use the table
  template <typename Make>
  const Pointer& add(const Make& make) {
    uint32_t index = 0;
    if (free_.empty()) {
      index = static_cast<uint32_t>(sessions_.size());
      sessions_.emplace_back();
      generations_.push_back(0);
    } else {
      index = free_.back();
      free_.pop_back();
    }
    if (++generations_[index] == 0) ++generations_[index];  // 0 is no generation
    sessions_[index] = make(SessionId{.index = index, .generation = generations_[index]});
    return sessions_[index];
  }
  /// Takes a session out (checked that it is there). Its place is free afterwards.
  Pointer remove(SessionId id) {
    RC_CHECK(find(id) != nullptr);
    free_.push_back(id.index);
    return std::exchange(sessions_[id.index], nullptr);
  }
  /// Removes all. Ids of sessions that were there must not be looked for any more: their generations begin again.
  void clear() {
    sessions_.clear();
    generations_.clear();
    free_.clear();
  }

  /// Number of sessions, in whatever state.
  size_t count() const { return sessions_.size() - free_.size(); }
  /// Calls visit(Session&) for each session, in the order of the indices. `visit` may add and remove sessions.
  template <typename Visit>
  void forEach(const Visit& visit) const {
    for (size_t i = 0; i < sessions_.size(); ++i) {
      if (Session* const session = sessions_[i].get(); session != nullptr) visit(*session);
    }
  }

 private:
  std::vector<Pointer> sessions_;      // by index; nullptr: the place is free
  std::vector<uint32_t> generations_;  // by index
  std::vector<uint32_t> free_;         // indices
};

}  // namespace ramcore::transport
