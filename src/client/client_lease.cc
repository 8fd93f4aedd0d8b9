#include "client/client_lease.h"

namespace ramcore::client {
namespace {

// When the client stops to use its lease (clocks may differ by 5 % in rate), and when it asks for more.
constexpr int64_t usableNs(int64_t lease_ns) { return lease_ns / 10 * 9; }
constexpr int64_t renewAfterNs(int64_t lease_ns) { return lease_ns / 3; }

}  // namespace

ClientLease::ClientLease(CoordinatorStub& coordinator, Pacer& pacer, runtime::Entropy& entropy, bool renew_by_timer)
    : Timer([](Timer& timer) {
        auto& self = static_cast<ClientLease&>(timer);
        self.tend(self.pacer_.nowNs());
      }),
      coordinator_(coordinator),
      pacer_(pacer),
      entropy_(entropy),
      renew_by_timer_(renew_by_timer),
      opened_(pacer.executor()),
      room_(pacer.executor()) {}

runtime::Task<Status> ClientLease::open(int64_t deadline_ns) {
  for (;;) {
    const int64_t now_ns = pacer_.nowNs();
    if (isUsable(now_ns)) {
      tend(now_ns);
      co_return Status::Ok;
    }
    if (pacer_.stopped()) co_return Status::Shutdown;
    if (now_ns >= deadline_ns) co_return Status::DeadlineExceeded;
    if (!opening_) co_return co_await openOnce(deadline_ns);
    const Status status = co_await opened_.wait(deadline_ns);
    if (status != Status::Ok) co_return status;
  }
}

runtime::Task<Status> ClientLease::awaitRoom(uint64_t count, int64_t deadline_ns) {
  const uint32_t generation = generation_;
  Status status = Status::Ok;
  ++waiting_for_room_;
  while (status == Status::Ok && generation == generation_ && !hasRoom(count)) {
    // When the client stops, the calls that take the room end, and each end wakes this coroutine.
    if (pacer_.stopped()) {
      status = Status::Shutdown;
      break;
    }
    status = co_await room_.wait(deadline_ns);
  }
  --waiting_for_room_;
  co_return status;
}

runtime::Task<Status> ClientLease::openOnce(int64_t deadline_ns) {
  opening_ = true;
  end();
  uint64_t nonce = entropy_.next();
  const auto lease = co_await coordinator_.openClient(nonce, deadline_ns);
  opening_ = false;
  Status status = lease.status();
  if (lease) {
    client_ = lease->client;
    ++generation_;
    tracker_ = CallTracker();
    burst_ = 0;
    report_after_ns_ = INT64_MIN;
    granted(*lease);
    if (!isUsable(pacer_.nowNs())) status = Status::DeadlineExceeded;  // the answer took longer than the lease
  }
  // The other calls that wait look for themselves, because each has a deadline of its own.
  opened_.notifyAll();
  co_return status;
}

void ClientLease::granted(const CoordinatorStub::Lease& lease) {
  usable_until_ns_ = addNs(lease.sent_ns, usableNs(lease.lease_ns));
  renew_at_ns_ = addNs(lease.sent_ns, renewAfterNs(lease.lease_ns));
  if (renew_by_timer_ && !pacer_.stopped()) pacer_.executor().arm(*this, renew_at_ns_);
}

void ClientLease::end() {
  // From here on no ticket is current until there is a new identity.
  if (client_) ++generation_;
  client_ = ClientId();
  usable_until_ns_ = 0;
  Timer::cancel();
  if (waiting_for_room_ != 0) room_.notifyAll();
}

void ClientLease::finish(Ticket& ticket) {
  if (!isCurrent(ticket)) {
    ticket = Ticket();
    return;
  }
  if (tracker_.finish(ticket.sequence) && waiting_for_room_ != 0) room_.notifyAll();
  ticket = Ticket();
  // Told at once, because the program may not poll for a long time.
  if (burst_ >= kReportedBurst && tracker_.unfinishedCount() == 0) [[unlikely]]
    tend(pacer_.nowNs());
}

void ClientLease::lapse(const Ticket& ticket) {
  if (!isCurrent(ticket)) return;
  end();
}

void ClientLease::tend(int64_t now_ns) {
  if (renewing_ || !client_ || pacer_.stopped() || (now_ns < renew_at_ns_ && !hasToReport(now_ns))) return;
  renew().detach();
}

runtime::Task<void> ClientLease::renew() {
  renewing_ = true;
  const uint32_t generation = generation_;
  burst_ = tracker_.unfinishedCount();
  report_after_ns_ = addNs(pacer_.nowNs(), kReportNsMin);
  const auto lease = co_await coordinator_.renewClient(client_, tracker_.acknowledged(), usable_until_ns_);
  renewing_ = false;
  if (generation != generation_ || !client_) co_return;
  if (lease) {
    granted(*lease);
  } else if (lease.error() == Status::LeaseExpired || lease.error() == Status::BadRequest) {
    end();
  } else {
    // The lease is not renewed any more, because the stub has asked until its end. The next use opens another one.
    renew_at_ns_ = runtime::kNever;
  }
}

runtime::Task<void> ClientLease::close(int64_t deadline_ns) {
  const ClientId client = client_;
  if (!client) co_return;
  end();
  [[maybe_unused]] const Status status = co_await coordinator_.closeClient(client, deadline_ns);
}

}  // namespace ramcore::client
