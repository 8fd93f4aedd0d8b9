#pragma once

#include <string>
#include <vector>

#include "rpc/caller.h"

namespace ramcore::master {

/// Another server of the cluster, as the coordinator describes it.
struct Member {
  ServerId id;
  rpc::PeerAddress address;
  bool keeps_replicas = false;
  std::string failure_domain;  ///< empty: a domain of its own
};

}  // namespace ramcore::master
