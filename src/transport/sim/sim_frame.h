#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "runtime/timer.h"
#include "transport/transport.h"

namespace ramcore::transport {

class SimSessions;

enum class SimFrameKind : uint8_t {
  Hello,    ///< asks for a session
  Welcome,  ///< grants it
  Refusal,  ///< refuses it, with a status
  Request,
  Response,
  Close,    ///< the sender ended the session in order
  Lost,     ///< the session broke
  GiveUp,   ///< not sent: reminds an end that a message of it was lost
  Expired,  ///< not sent: the deadline of a handshake
};

/// What a frame says, apart from its journey.
struct SimFrameContents {
  SimFrameKind kind = SimFrameKind::Lost;
  uint8_t from_end = 0;  ///< 0: from the end that connected
  uint64_t connection = 0;
  Status status = Status::Ok;  ///< Refusal
  uint64_t expected_id = 0;    ///< Hello
  Identity identity = {};      ///< Hello, Welcome: the sender's

  uint16_t slot = 0;
  uint32_t sequence = 0;
  runtime::Priority priority = runtime::Priority::Client;
  uint32_t response_bytes_max = 0;
  uint32_t contiguous_bytes = 0;  ///< leading bytes that the receiver wants in one piece
  std::vector<std::byte> bytes = {};

  bool is_copy = false;  ///< the network made it; for the totals, not for the receiver
};

/// What travels in the simulated network. It lives in one list after the other: on its way, held, in an endpoint's
/// inbox, borrowed by its reader. As a Timer it is the event of its arrival.
struct SimFrame : runtime::Timer, SimFrameContents {
  static constexpr size_t kTailSpansMax = 3;

  SimFrame(SimSessions& network, const SimFrameContents& contents)
      : Timer(&SimFrame::fire), SimFrameContents(contents), network(network) {}

  SimSessions& network;
  std::list<SimFrame>::iterator self;
  SessionId session;  ///< the receiver's, once it has arrived
  std::array<ByteSpan, kTailSpansMax> tail;

 private:
  static void fire(Timer& timer);
};

/// Holds one frame, or none once it was passed on.
using SimFrameList = std::list<SimFrame>;

}  // namespace ramcore::transport
