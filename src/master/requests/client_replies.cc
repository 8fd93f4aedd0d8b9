#include "master/requests/client_replies.h"

#include <algorithm>
#include <utility>

#include "base/mutation.h"

namespace ramcore::master {
namespace {

using rpc::Request;
using transport::TxMessage;
using wire::Opcode;

constexpr uint32_t kRetryAfterUs = 500;

}  // namespace

void ClientReplies::refuse(Request request, Status status) {
  request.reply(count(status), isRetryable(status) ? kRetryAfterUs : 0);
}

void ClientReplies::replyAfter(Request request, TxMessage response, const store::ShowAfter& show_after) {
  if (show_after.isReached(parts_.log) || RC_MUTATION("show-before-durable")) {
    request.reply(std::move(response));
  } else if (!parts_.pinned.copyOut(*response)) {
    refuse(std::move(request), Status::RetryLater);  // only answers to reads show values
  } else {
    replyWhenReached(*this, std::move(request), std::move(response), show_after).detach();
  }
}

runtime::Task<void> ClientReplies::replyWhenReached(ClientReplies& self, Request request, TxMessage response,
                                                    store::ShowAfter show_after) {
  if (RC_MUTATION("show-before-flushed")) {
    show_after.durable = std::max(show_after.durable, std::exchange(show_after.flushed, {}));
  }
  // The wait that takes longer comes first: what is flushed is durable, so the other position is mostly reached by
  // then.
  Status status = co_await store::Reached(self.parts_.log, request.executor(), Durability::Sync, show_after.flushed);
  if (status == Status::Ok) {
    status = co_await store::Reached(self.parts_.log, request.executor(), Durability::Buffered, show_after.durable);
  }
  if (status == Status::Ok) {
    request.reply(std::move(response));
  } else {
    // This log has ended. A mutation is in it, and a recovery may find it there. So it is not refused: the client would
    // repeat it as another call. A read may be repeated at another server.
    const bool reads =
        request.opcode() == Opcode::Read || request.opcode() == Opcode::MultiRead || request.opcode() == Opcode::Scan;
    request.reply(reads ? Status::WrongServer : Status::OutcomeUnknown);
  }
}

}  // namespace ramcore::master
