#include "transport/verbs/verbs_queues.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ramcore::transport::verbs {
namespace {

constexpr uint32_t kDeparturesAtFirst = 1024;
constexpr uint32_t kSendsPerSlot = 3;  // a call, an answer, and the control packet of a transfer
constexpr uint32_t kSendsBesides = 64;

}  // namespace

VerbsQueues::VerbsQueues(const VerbsOptions& options, const VerbsContext& context, const Device& device,
                         EpollSleeper& sleeper, TimeoutRounds& rounds, Warnings& warnings)
    : options_(options),
      context_(context),
      device_(device),
      warnings_(warnings),
      receives_(device, options.receive_buffers_max, [&sleeper] { sleeper.wake(); }),
      completions_ready_(sleeper, rounds),
      device_ready_(sleeper, rounds) {
  is_ready_ = make();
}

VerbsQueues::~VerbsQueues() {
  if (arrival_events_ != 0) ibv_ack_cq_events(arrivals_.get(), arrival_events_);
  if (departure_events_ != 0) ibv_ack_cq_events(departures_.get(), departure_events_);
}

Outcome<bool> VerbsQueues::make() {
  const auto failed = [this](std::string_view what) {
    return Failure{Status::IoError,
                   "RDMA device " + device_.name() + " gives no " + std::string(what) + ": " + std::strerror(errno)};
  };
  events_.reset(ibv_create_comp_channel(device_.context()));
  if (events_ == nullptr) return failed("completion channel");
  for (const int fd : {events_->fd, device_.context()->async_fd}) {
    if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) return failed("events without waiting");
  }
  auto opened = receives_.open();
  if (!opened.ok()) return opened;
  const uint32_t buffers = std::min(options_.receive_buffers_max, device_.limits().receive_buffers);
  const auto arrivals = static_cast<int>(std::min(buffers + 1, device_.limits().completions));
  arrivals_.reset(ibv_create_cq(device_.context(), arrivals, nullptr, events_.get(), 0));
  departures_size_ = std::min(kDeparturesAtFirst, device_.limits().completions);
  departures_.reset(ibv_create_cq(device_.context(), static_cast<int>(departures_size_), nullptr, events_.get(), 0));
  if (arrivals_ == nullptr || departures_ == nullptr) return failed("completion queue");
  const bool are_completions_told = completions_ready_.listenTo(events_->fd);
  const bool is_device_told = device_ready_.listenTo(device_.context()->async_fd);
  if (!are_completions_told || !is_device_told) return failed("events that can be waited for");
  return true;
}

// Each request of a queue pair has a place: if the queue pair breaks, all of them complete, asked for or not.
bool VerbsQueues::reserveCompletions(uint32_t more) {
  const uint32_t wanted = departures_reserved_ + more;
  if (wanted > departures_size_) {
    const uint32_t size = std::min(std::max(wanted, 2 * departures_size_), device_.limits().completions);
    if (size < wanted || ibv_resize_cq(departures_.get(), static_cast<int>(size)) != 0) return false;
    departures_size_ = size;
  }
  departures_reserved_ = wanted;
  return true;
}

std::unique_ptr<QueuePair> VerbsQueues::makePair(bool is_server, uint16_t slot_count, std::string& why) {
  const QueuePair::Size size{
      .sends = std::min(kSendsPerSlot * slot_count + kSendsBesides, device_.limits().queue_pair_sends),
      .gather = TxBuffer::kChunkCountMax + 1,
      .inline_bytes = options_.inline_bytes};
  if (!reserveCompletions(size.sends)) {
    why = "RDMA device " + device_.name() + " holds no more completions; have fewer sessions";
    return nullptr;
  }
  if (auto wanted = receives_.want(receives_wanted_ + slot_count + 1u); !wanted.ok()) {
    departures_reserved_ -= size.sends;
    why = wanted.error().message;
    return nullptr;
  }
  std::array<std::byte, 4> random{};
  context_.entropy.fill(random);
  auto pair = QueuePair::make({device_, departures_.get(), arrivals_.get(), receives_.queue()}, size, !is_server,
                              loadAs<uint32_t>(random.data()));
  if (!pair.ok()) {
    departures_reserved_ -= size.sends;
    why = pair.error().message;
    return nullptr;
  }
  // The queue pair may have got fewer than were reserved.
  departures_reserved_ -= size.sends - (*pair)->size().sends;
  // The buffers count from now on, and not from when the session is open: many sessions that come at once must not
  // count on the same ones.
  receives_wanted_ += slot_count + 1u;
  return std::move(pair).value();
}

void VerbsQueues::release(const QueuePair& pair, uint16_t slot_count) {
  departures_reserved_ -= pair.size().sends;
  receives_wanted_ -= slot_count + 1u;
}

// ---- events

void VerbsQueues::takeCompletionEvents() {
  if (!completions_ready_.isReady()) return;
  completions_ready_.clear();
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(events_.get(), &queue, &context) == 0) {
    const bool is_arrival = queue == arrivals_.get();
    ++(is_arrival ? arrival_events_ : departure_events_);
    (is_arrival ? arrivals_armed_ : departures_armed_) = false;
  }
  // Each acknowledgement takes a lock in the library, so many are made at once.
  constexpr uint32_t kAcknowledgedAtOnce = 64;
  if (arrival_events_ + departure_events_ < kAcknowledgedAtOnce) return;
  if (arrival_events_ != 0) ibv_ack_cq_events(arrivals_.get(), std::exchange(arrival_events_, 0));
  if (departure_events_ != 0) ibv_ack_cq_events(departures_.get(), std::exchange(departure_events_, 0));
}

std::vector<VerbsQueues::BrokenPair> VerbsQueues::takeDeviceEvents() {
  std::vector<BrokenPair> broken;
  if (!device_ready_.isReady()) return broken;
  device_ready_.clear();
  ibv_async_event event{};
  while (ibv_get_async_event(device_.context(), &event) == 0) {
    note(event, ibv_event_type_str(event.event_type), broken);
    ibv_ack_async_event(&event);
  }
  return broken;
}

void VerbsQueues::note(const ibv_async_event& event, const std::string& what, std::vector<BrokenPair>& broken) {
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      broken.push_back(
          {.number = event.element.qp->qp_num, .why = what, .is_malformed = event.event_type != IBV_EVENT_QP_FATAL});
      break;
    case IBV_EVENT_PORT_ACTIVE:
      context_.trace.info("verbs: " + device_.describe() + " is active again");
      break;
    case IBV_EVENT_PORT_ERR:
      warnings_.warn("the port of " + device_.describe() +
                     " is down: its sessions are lost if it stays so; check cable and switch");
      break;
    case IBV_EVENT_DEVICE_FATAL:
      warnings_.warn(device_.describe() + " has failed: " + what + "; restart this process");
      break;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_COMM_EST:
      break;
    default:
      context_.trace.debug("verbs: " + device_.describe() + ": " + what);
  }
}

}  // namespace ramcore::transport::verbs
