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

// Bounds of what one server says about itself: some numbers and the names of its transports; and its list of sessions.
constexpr size_t kStateBytesMax = 1'024;
constexpr size_t kListedBytesMax = rpc::kSessionsListedMax * rpc::kListedSessionBytesMax;
// The share of an answer that the lists of sessions of all servers together may take: the rest is for tables and
// tablets. Sessions of the servers after it are counted, but not listed.
constexpr size_t kAllListedBytesMax = 2 * 1024 * 1024;
// Once what all servers say about their tablets takes so much, samples of calls are left out.
constexpr size_t kLoadsBytesMax = 4 * 1024 * 1024;
constexpr size_t kAllLoadsBytesMax = 7 * 1024 * 1024;
// Elements of each list in what the status says about one recovery; the rest is counted.
constexpr size_t kListedMax = 100;
// Recoveries in one answer. With all that is listed about so many the answer is still short enough.
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
    case SilenceMeans::Death:  // the verdict comes at once
      return out.set_wait(control::SILENCE_WAIT_SHORT);
  }
}

}  // namespace

runtime::Task<void> StatusService::clusterLoads(Request request) {
  Journal::Running running(services_.journal);
  control::LoadsRequest message;
  const Status received = services_.gate.receive(request, message);
  if (received != Status::Ok) co_return refuse(std::move(request), received);
  const std::vector<ServerId> asked = services_.membership.heardServers();
  std::vector<control::TabletLoadsResponse> loads(asked.size());
  std::vector<runtime::Task<Status>> calls;
  for (size_t i = 0; i < asked.size(); ++i) {
    calls.push_back(services_.calls.tabletLoads(asked[i], message.only_calls(), loads[i]));
  }
  control::ClusterLoadsResponse response;
  size_t bytes = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    const Status answered = co_await calls[i];
    // An answer under another server's id is left out.
    if (answered != Status::Ok || loads[i].id() != asked[i].value) continue;
    bytes += loads[i].ByteSizeLong();
    // A server that is left out is one that has not answered.
    if (bytes > kAllLoadsBytesMax) continue;
    // Without the samples a large cluster can still be told from how its servers are filled.
    if (bytes > kLoadsBytesMax) {
      for (control::TabletLoad& load : *loads[i].mutable_tablets()) load.clear_called();
    }
    *response.add_servers() = std::move(loads[i]);
  }
  rpc::replyControl(std::move(request), response);
}

runtime::Task<void> StatusService::clusterStatus(Request request) {
  Journal::Running running(services_.journal);
  control::ClusterStatusRequest message;
  const Status received = services_.gate.receive(request, message);
  if (received != Status::Ok) co_return refuse(std::move(request), received);
  // Sessions show where clients come from. Only admins need to know that.
  const bool lists_sessions = message.lists_sessions() && request.peerRole() == Role::Admin;
  // All servers are asked at once. Servers that are slow or away are left out.
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
    // An answer under another server's id is left out, and so is one that would take the room of the others' answers.
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
