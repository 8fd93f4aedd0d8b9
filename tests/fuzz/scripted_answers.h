#pragma once

#include <string_view>

#include "sim/cluster/rpc_process.h"

namespace ramcore::fuzz {

/// Answers requests, whatever they ask, with what an input says: a list of status, length, bytes behind the header.
class ScriptedAnswers {
 public:
  /// @param afterwards  the status of all answers when the input is used up.
  ScriptedAnswers(std::string_view answers, Status afterwards) : rest_(answers), afterwards_(afterwards) {}

  /// Before the first step of `process`.
  void serve(sim::RpcProcess& process, wire::Opcode opcode, uint32_t roles) {
    process.dispatch().services().add<&ScriptedAnswers::answer>(opcode, *this, {.roles = roles, .any_target = true});
  }

 private:
  void answer(rpc::Request request) {
    if (rest_.size() < 2) return request.reply(afterwards_);
    const auto status = static_cast<Status>(static_cast<uint8_t>(rest_[0]));
    const size_t bytes = std::min<size_t>(static_cast<uint8_t>(rest_[1]), rest_.size() - 2);
    transport::TxMessage response = request.allocate(sizeof(wire::ResponseHeader) + bytes);
    if (!response) return request.reply(Status::TooLarge);
    response.appendHead(wire::ResponseHeader{.status = status});
    response.appendHead(asBytes(rest_.substr(2, bytes)));
    rest_.remove_prefix(2 + bytes);
    request.reply(std::move(response));
  }

  std::string_view rest_;
  const Status afterwards_;
};

}  // namespace ramcore::fuzz
