#include "transport/verbs/channels.h"

#include <algorithm>
#include <utility>

#include "transport/os/stream_io.h"

namespace ramcore::transport::verbs {
namespace {

// How long a queue pair has to come to its end, in order or broken, before it is destroyed as it is.
constexpr int64_t kDrainNs = 1 * runtime::kNanosPerSecond;
constexpr uint32_t kRoundsToFirstLook = 256;

}  // namespace

Channels::~Channels() {
  for (auto& channel : draining_) {
    if (!channel->has_failed) channel->queue.pair().fail();
    giveBack(*channel);
    channel.reset();
  }
}

void Channels::open(Session& session) {
  Greeting& greeting = *session.greeting;
  session.channel = std::make_unique<Channel>(send_queues_, greeting.takePair(), ++last_tag_, greeting.slotCount(),
                                              greeting.peerReceiveBytes());
  session.channel->session = &session;
  const uint32_t number = session.channel->queue.pair().number();
  channels_[number] = session.channel.get();
  greeting_pairs_.erase(number);
  memory_.places.admit(session.channel->tag);
}

// The queue pair is kept until nothing of it can arrive any more: a message of it that has arrived must not be taken
// for one of a later queue pair with the same number.
void Channels::dropPair(Greeting& greeting) {
  queues_.release(greeting.pair(), greeting.slotCount());
  greeting_pairs_.erase(greeting.pair().number());
  std::unique_ptr<QueuePair> pair = greeting.takePair();
  pair->fail();
  dying_.push_back({std::move(pair), queues_.arrivalCount()});
}

void Channels::drain(std::unique_ptr<Channel> channel, Descriptor socket, bool in_order) {
  channel->session = nullptr;
  // Answers that wait for a place are dropped at once: the adapter does not read them yet.
  for (ServedTransfer& served : channel->served) served.response = TxMessage();
  channel->responses_waiting = 0;
  if (in_order) {
    channel->socket = std::move(socket);
  } else {
    channel->queue.pair().fail();
    channel->has_failed = true;
  }
  wire::VerbsHeader header{};
  header.kind = wire::VerbsKind::Close;
  const bool is_posted = channel->queue.close(header);
  channel->drain_until_ns = is_posted ? clock_.nowNs() + kDrainNs : 0;
  draining_.push_back(std::move(channel));
  rounds_.readClockWithin(kRoundsToFirstLook);
}

void Channels::endDrains(int64_t now_ns) {
  for (auto& channel : draining_) {
    if (channel->is_settled || (!channel->queue.isEmpty() && now_ns < channel->drain_until_ns)) continue;
    if (channel->socket && channel->queue.isEmpty()) {
      size_t sent = 0;
      static_cast<void>(sendSome(channel->socket.get(), ByteSpan(&kCloseByte, 1), sent));
    }
    channel->socket.reset();
    const bool had_failed = std::exchange(channel->has_failed, true);
    if (!had_failed) channel->queue.pair().fail();
    if (!had_failed && !channel->queue.isEmpty()) {
      channel->drain_until_ns = now_ns + kDrainNs;  // until its requests have come back
      continue;
    }
    channel->is_settled = true;
    channel->settled_at = queues_.arrivalCount();
  }
}

void Channels::reap(bool nothing_arrived) {
  const auto isOver = [&](uint64_t mark) { return nothing_arrived || queues_.hasTakenAll(mark); };
  std::erase_if(dying_, [&](const DyingPair& dying) { return isOver(dying.settled_at); });
  std::erase_if(draining_, [&](std::unique_ptr<Channel>& channel) {
    if (!channel->is_settled) {
      if (channel->queue.isEmpty()) rounds_.call();
      return false;
    }
    if (!isOver(channel->settled_at)) return false;
    channels_.erase(channel->queue.pair().number());
    queues_.release(channel->queue.pair(), channel->calls.slotCount());
    giveBack(*channel);
    return true;
  });
}

// Gives back what transfers held. The queue pair goes first, so that the adapter cannot use any of it. Only the windows
// that are bound to the queue pair go before it: otherwise software devices (rxe) wait for ten seconds.
void Channels::giveBack(Channel& channel) {
  memory_.places.forget(channel.tag);
  channel.queue.destroyPair();
  for (OwnTransfer& own : channel.own) {
    if (own.request != nullptr) memory_.places.drop(std::move(own.request));
    if (own.response != nullptr) memory_.places.drop(std::move(own.response));
  }
  for (ServedTransfer& served : channel.served) {
    if (served.into == nullptr) continue;
    memory_.read_messages.letGo(served.into_bytes);
    if (served.is_read) memory_.blocks.drop(served.into);  // otherwise the send queue drops it, or has done so
    served.into = nullptr;
  }
}

int64_t Channels::nextNs(int64_t soon_ns) const {
  int64_t next_ns = dying_.empty() ? runtime::kNever : soon_ns;
  for (const auto& channel : draining_) {
    next_ns = std::min(next_ns, channel->is_settled ? soon_ns : channel->drain_until_ns);
  }
  return next_ns;
}

}  // namespace ramcore::transport::verbs
