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

/// Decides which requests are served: none before the state has been read, nor after this coordinator is over or its
/// state has proved to be an older copy, and some only when Membership::isSettled().
/// Thread: the dispatch's.
class RequestGate {
 public:
  /// All are borrowed and outlive the gate.
  RequestGate(Journal& journal, const ChangeHistory& history, const Membership& membership, Trace& trace)
      : journal_(journal), history_(history), membership_(membership), trace_(trace) {}

  /// From now on requests are served. Before this call they get NotLeader.
  void open() { is_open_ = true; }
  /// From now on requests are answered with `why`.
  void close(Status why) {
    is_open_ = false;
    closed_ = why;
  }
  bool isOpen() const { return is_open_; }
  /// Ok while requests are served, or why they are not.
  Status state() const { return is_open_ ? Status::Ok : closed_; }
  /// The status for a request that cannot be parsed: BadRequest, or state() while no request is served.
  Status refusal() const { return is_open_ ? Status::BadRequest : closed_; }
  /// `on_missing` is called when a server names a change of the cluster's state that is not here. Once, before open().
  void setOnMissing(std::function<void(ServerId server, ChangeRef missing)> on_missing) {
    on_missing_ = std::move(on_missing);
  }

  // In request_gate_inline.h.
  /// Parses a request. Failure: BadRequest: it cannot be parsed; state() while no request is served.
  template <typename Message>
  Status receive(const rpc::Request& request, Message& message) const;
  /// As receive(), for a request that hands something out or gives something up. RetryLater: the state may still prove
  /// to be an older copy.
  template <typename Message>
  Status receiveSettled(const rpc::Request& request, Message& message) const;
  /// As receive(), for a request that a server makes in its own name. WrongCluster: it belongs to another cluster.
  /// BadRequest: it names another server's id.
  template <typename Message>
  Status receiveOfMember(const rpc::Request& request, Message& message) const;

  /// True if this state may be acted on for the sender: servers have had the time to name the changes that they have
  /// heard of (Membership::isSettled), and the sender itself has done so, if it is a server.
  bool isReliable(const rpc::Request& request) const;
  /// Checks the latest change that a server has heard of. StateBehind: this change is missing here. BadRequest: its
  /// number makes no sense.
  Status checkHeard(ServerId server, ClusterId cluster, ChangeRef heard);
  /// The status to answer after an operation that awaited and ended with `status`: StateBehind if the state has proved
  /// to be an older copy meanwhile, otherwise `status`.
  Status unlessBehind(Status status) const;
  /// As unlessBehind(), for a change that was begun. OutcomeUnknown: it may be stored, although this coordinator has
  /// ended or its state has proved to be an older copy meanwhile.
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
