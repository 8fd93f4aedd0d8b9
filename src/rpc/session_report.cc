#include "rpc/session_report.h"

#include <algorithm>
#include <vector>

#include "wire/control.h"

namespace ramcore::rpc {
namespace {

struct Found {
  const transport::Peer* peer;
  wire::control::TransportSessions* transport;
};

}  // namespace

void reportSessions(const Dispatch& dispatch, size_t listed_max,
                    google::protobuf::RepeatedPtrField<wire::control::TransportSessions>& out) {
  std::vector<Found> clients;
  std::vector<Found> listed;  // first the others, then `clients`
  out.Reserve(static_cast<int>(dispatch.endpoints().size()));
  for (size_t i = 0; i < dispatch.endpoints().size(); ++i) {
    const transport::Endpoint& endpoint = *dispatch.endpoints()[i];
    wire::control::TransportSessions& transport = *out.Add();
    transport.set_name(std::string(endpoint.limits().name));
    transport.set_sessions(endpoint.sessionCount());
    if (listed_max == 0) continue;
    dispatch.openSessions(i).visit([&](transport::SessionId session) {
      // nullptr if the session was closed in this round, perhaps by this process, and its end was not reported yet.
      const transport::Peer* peer = endpoint.peer(session);
      if (peer != nullptr) (peer->role == transport::Role::Client ? clients : listed).push_back({peer, &transport});
    });
  }
  listed.insert(listed.end(), clients.begin(), clients.end());
  for (const Found& found : std::span(listed).first(std::min(listed.size(), listed_max))) {
    wire::control::OpenSession& session = *found.transport->add_open();
    session.set_peer_role(static_cast<uint32_t>(found.peer->role));
    session.set_peer_id(found.peer->id);
    session.set_peer_address(found.peer->address.substr(0, kPeerAddressBytesMax));
  }
}

}  // namespace ramcore::rpc
