#pragma once

#include <cstdint>
#include <functional>

#include "base/change_ref.h"
#include "base/ids.h"
#include "base/status.h"
#include "base/trace.h"
#include "coordinator/members/membership.h"
#include "coordinator/state/change_history.h"
#include "coordinator/state/journal.h"
#include "rpc/service_table.h"

namespace ramcore::coordinator {

/// Decides which requests are served: not before the state has been read, not after this coordinator is over or its
/// state has proved to be an older copy, and some not before most servers have spoken.
/// Thread: the dispatch's.
class RequestGate {
 public:
  /// All are borrowed and outlive the gate.
  RequestGate(Journal& journal, const ChangeHistory& history, const Membership& membership, Trace& trace)
      : journal_(journal), history_(history), membership_(membership), trace_(trace) {}

  /// From now on requests are served. Before, they get NotLeader.
  void open() { is_open_ = true; }
  /// From now on requests are answered with `why`.
  void close(Status why) {
    is_open_ = false;
    closed_ = why;
  }
  bool isOpen() const { return is_open_; }
  /// Ok while requests are served, or why they are not.
  Status state() const { return is_open_ ? Status::Ok : closed_; }
  /// Why a request that makes no sense is refused.
  Status refusal() const { return is_open_ ? Status::BadRequest : closed_; }
  /// `on_missing` is called when a server names a change of the cluster's state that is not here. Once, before open().
  void setOnMissing(std::function<void(ServerId server, ChangeRef missing)> on_missing) {
    on_missing_ = std::move(on_missing);
  }

  // In request_gate_inline.h.
  /// Parses a request. Failure: BadRequest; why nothing is served.
  template <typename Message>
  Status receive(const rpc::Request& request, Message& message) const;
  /// As receive(), for what is handed out or given up. RetryLater: the state may still prove to be an older copy.
  template <typename Message>
  Status receiveSettled(const rpc::Request& request, Message& message) const;
  /// As receive(), for a request that a server makes in its own name: a server's id belongs to one cluster.
  template <typename Message>
  Status receiveOfMember(const rpc::Request& request, Message& message) const;

  /// True if the state has proved, as far as the sender can tell, to be no older copy.
  bool isReliable(const rpc::Request& request) const;
  /// StateBehind: this change is missing here. BadRequest: it makes no sense.
  Status checkHeard(ServerId server, ClusterId cluster, ChangeRef heard);
  /// What to answer for `status` of something that has taken time.
  Status unlessBehind(Status status) const;
  /// As unlessBehind(), for a change that was begun.
  Status ofChange(Status status) const;

 private:
  Status checkMember(const rpc::Request& request, ClusterId cluster, uint64_t id) const;

  Journal& journal_;
  const ChangeHistory& history_;
  const Membership& membership_;
  Trace& trace_;
  std::function<void(ServerId, ChangeRef)> on_missing_;
  bool is_open_ = false;
  Status closed_ = Status::NotLeader;
  bool told_of_nonsense_ = false;
};

/// Answers with a failure, and when to ask again.
void refuse(rpc::Request request, Status status);
/// Answers with Ok, or as refuse().
void replyStatus(rpc::Request request, Status status);

}  // namespace ramcore::coordinator
