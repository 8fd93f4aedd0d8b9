#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <vector>

#include "runtime/executor.h"
#include "runtime/timer.h"
#include "transport/sim/sim_frame.h"
#include "transport/transport.h"

namespace ramcore::transport {

class SimSender;
class SimSessions;

/// A message of a simulated endpoint between call() or reply() and its release. As a Timer it is the moment at which
/// the "hardware" reads its bytes.
struct SimSending : runtime::Timer {
  explicit SimSending(SimSender& sender) : Timer(&SimSending::fire), sender(sender) {}
  static void fire(Timer& timer);

  SimSender& sender;
  TxMessage message;
  SimFrameKind kind = SimFrameKind::Request;
  SessionId session;
  uint16_t slot = 0;
  uint32_t sequence = 0;
  runtime::Priority priority = runtime::Priority::Client;
  uint32_t response_bytes_max = 0;
  bool is_overdue = false;                     ///< borrowed for too long: to be copied
  std::vector<std::vector<std::byte>> copies;  ///< of chunks whose caller does not wait any more
  std::list<SimSending>::iterator self;
};

/// Sends the messages of one simulated endpoint. The "hardware" reads the bytes of a message some time after flush(),
/// also while the process is paused; owners are released in the poll after that. A message that waits for a peer that
/// reads nothing is copied when its bytes are borrowed for too long. One thread.
class SimSender {
 public:
  /// What the sender asks of its endpoint.
  class Owner {
   public:
    /// Where the messages of a session go.
    struct Way {
      uint64_t connection = 0;
      uint8_t end = 0;
    };
    /// Nothing if the session is over.
    virtual std::optional<Way> wayOf(SessionId session) const = 0;
    virtual void closeUnread(SessionId session) = 0;

   protected:
    ~Owner() = default;
  };

  /// All borrowed.
  SimSender(SimSessions& network, Owner& owner, const std::function<void()>& wake)
      : network_(network), owner_(owner), wake_(wake) {}
  SimSender(const SimSender&) = delete;
  SimSender& operator=(const SimSender&) = delete;

  /// Queues a message, which leaves after the next flush(). The caller sets the fields that say what it is.
  SimSending& queue(TxMessage message);
  void flush();
  /// Gives the bytes that were read back to their owners.
  void releaseSent();
  /// Copies bytes that are borrowed for too long; closes a session that would have more in copies than it may.
  void copyOutOverdue();
  /// To be called when the caller of a call does not wait any more: copies its bytes that have no owner.
  void keepUnowned(SessionId session, const PendingCall& call);
  /// True if nothing is left for the next poll.
  bool isIdle() const { return sent_.empty() && !has_overdue_; }
  BorrowedCounts borrowedCounts() const { return borrowed_counts_; }

 private:
  friend struct SimSending;

  void transmit(SimSending& sending);
  void waitForReader(SimSending& sending);
  bool copyOut(SimSending& sending);
  static void keepUnowned(std::list<SimSending>& list, SessionId session, const PendingCall& call);

  SimSessions& network_;
  Owner& owner_;
  const std::function<void()>& wake_;
  std::list<SimSending> unflushed_;
  std::list<SimSending> transmitting_;
  std::list<SimSending> sent_;
  int64_t last_transmit_ns_ = 0;
  bool has_overdue_ = false;  // among transmitting_
  BorrowedCounts borrowed_counts_;
};

}  // namespace ramcore::transport
