#include "coordinator/status_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "coordinator/calls/control_records.h"
#include "coordinator/request_gate_inline.h"
#include "rpc/session_report.h"

namespace ramcore::coordinator {
namespace {

namespace control = wire::control;
using rpc::Request;
using transport::Role;

// What one server says of itself: some numbers, and the names of its transports. Beside them it may list sessions.
constexpr size_t kStateBytesMax = 1'024;
constexpr size_t kListedBytesMax = rpc::kSessionsListedMax * rpc::kListedSessionBytesMax;
// The share of an answer that the lists of sessions of all servers together may take: the rest is for tables and
// tablets. Sessions of the servers after it are counted, but not listed.
constexpr size_t kAllListedBytesMax = 2 * 1024 * 1024;
// Elements of each list in what the status says about one recovery; the rest is counted.
constexpr size_t kListedMax = 100;
// With all that is listed about them they leave the answer short enough.
constexpr int kRecoveriesMax = 64;

void fillRecovery(const RecoveryReport& report, const Membership& membership, control::RecoveryStatus& out) {
  out.set_server(report.server.value);
  if (const Server* server = membership.find(report.server)) out.set_server_name(server->name);
  out.set_tablets_left(static_cast<uint32_t>(report.tablets_left));
  for (size_t i = 0; i < std::min(report.missing.size(), kListedMax); ++i) {
    out.add_missing_segments(report.missing[i].value);
  }
  out.set_missing_count(report.missing.size());
  for (size_t i = 0; i < std::min(report.away.size(), kListedMax); ++i) {
    out.add_servers_away(report.away[i].value);
    out.add_away_for_ns(membership.silentForNs(report.away[i]));
  }
  out.set_text(report.text);
  out.set_missing_servers(report.missing_places.servers);
  out.set_missing_storage_bytes(report.missing_places.storage_bytes);
  out.set_loss_token(report.loss_token);
  if (report.loss_token == 0) return;
  out.set_loss_end(static_cast<control::LossEnd>(report.salvage.end));
  out.set_loss_list(report.salvage.list.value);
  out.set_segments_whole(report.salvage.whole.size());
  out.set_segments_in_part(report.salvage.in_part.size());
  out.set_loss_accepted(report.loss_accepted);
}

void fillSilence(const Membership::SilentServer& silent, const Membership& membership, control::ServerSilence& out) {
  out.set_server(silent.id.value);
  out.set_silent_ns(membership.silentForNs(silent.id));
  switch (silent.means) {
    case SilenceMeans::Together:
      return out.set_wait(control::SILENCE_WAIT_TOGETHER);
    case SilenceMeans::Replacers:
      return out.set_wait(control::SILENCE_WAIT_REPLACERS);
    case SilenceMeans::Room:
      return out.set_wait(control::SILENCE_WAIT_ROOM);
    case SilenceMeans::Nothing:
    case SilenceMeans::TooShort:
    case SilenceMeans::Death:  // at once
      return out.set_wait(control::SILENCE_WAIT_SHORT);
  }
}

}  // namespace

runtime::Task<void> StatusService::clusterStatus(Request request) {
  Journal::Running running(services_.journal);
  control::ClusterStatusRequest message;
  const Status received = services_.gate.receive(request, message);
  if (received != Status::Ok) co_return refuse(std::move(request), received);
  // Where clients come from is nothing that other clients need to know.
  const bool lists_sessions = message.lists_sessions() && request.peerRole() == Role::Admin;
  // All servers at once; those that are slow or away are left out.
  const std::vector<ServerId> asked = services_.membership.heardServers();
  std::vector<control::ServerStateResponse> states(asked.size());
  std::vector<runtime::Task<Status>> calls;
  for (size_t i = 0; i < asked.size(); ++i) {
    calls.push_back(services_.calls.serverState(asked[i], lists_sessions, states[i]));
  }
  control::ClusterStatusResponse response;
  size_t listed_bytes = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    const Status answered = co_await calls[i];
    if (answered != Status::Ok) continue;
    // What each tablet gets is for balancing, not for the status, where all of it together would be too long.
    states[i].clear_tablets();
    // No server speaks for another one, or makes the answer too long for what the others say.
    if (states[i].id() != asked[i].value || states[i].ByteSizeLong() > kStateBytesMax + kListedBytesMax) continue;
    listed_bytes += states[i].ByteSizeLong();
    if (!lists_sessions || listed_bytes > kAllListedBytesMax) {
      for (control::TransportSessions& sessions : *states[i].mutable_transports()) sessions.clear_open();
      if (states[i].ByteSizeLong() > kStateBytesMax) continue;
    }
    *response.add_states() = std::move(states[i]);
  }
  response.set_cluster(services_.journal.store().cluster().value);
  response.set_storage_full(services_.journal.isFull());
  response.set_cluster_name(services_.journal.store().clusterName());
  for (const Server* server : services_.membership.servers()) fillServer(*server, *response.add_servers());
  for (const Table* table : services_.map.tables()) {
    if (table->state != TableState::Ready) continue;
    fillTable(*table, *response.add_tables());
    for (const Tablet* tablet : services_.map.tabletsOf(table->id)) {
      fillTablet(*tablet, services_.membership.isAlive(tablet->owner), *response.add_tablets());
    }
  }
  for (const RecoveryReport& report : services_.recoveries.reports()) {
    if (response.recoveries_size() >= kRecoveriesMax) break;
    fillRecovery(report, services_.membership, *response.add_recoveries());
  }
  for (const Membership::SilentServer& silent : services_.membership.silentServers()) {
    fillSilence(silent, services_.membership, *response.add_silences());
  }
  rpc::reportSessions(request.dispatch(), lists_sessions ? rpc::kSessionsListedMax : 0, *response.mutable_transports());
  rpc::replyControl(std::move(request), response);
}

}  // namespace ramcore::coordinator
