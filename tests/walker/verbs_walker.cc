// Loaded in front of libibverbs (LD_PRELOAD), into a server that knows nothing of it: looks at each gather list right
// before the adapter gets it.
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <algorithm>

#include "walker/sent_ledger.h"
#include "wire/verbs_messages.h"

#undef ibv_reg_mr  // a macro that chooses one of two functions

namespace {

using ramcore::walker::RegisteredLog;
using ramcore::walker::SentLedger;
using ramcore::wire::VerbsHeader;
using ramcore::wire::VerbsKind;

template <typename Function>
Function* next(const char* name, const char* version) {
  auto* const found = reinterpret_cast<Function*>(::dlvsym(RTLD_NEXT, name, version));
  if (found == nullptr) std::abort();
  return found;
}

int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;

/// One message: a SEND, or WRITEs and the SEND that tells of them.
struct Message {
  uint64_t first_bytes = 0;  // of its first entry, if that is not in the log
  bool is_begun = false;
  std::array<uint64_t, 256> others{};  // entries behind it that are not in the log
  size_t other_count = 0;
};

void walk(Message& message, const ibv_sge& entry) {
  SentLedger& ledger = SentLedger::ofProcess();
  SentLedger::add(ledger.payload_bytes, entry.length);
  const bool is_first = !message.is_begun;
  message.is_begun = true;
  if (RegisteredLog::holds(entry.addr, entry.length)) {
    SentLedger::add(ledger.log_bytes, entry.length);
    SentLedger::add(ledger.log_pieces, 1);
  } else if (is_first) {
    message.first_bytes = entry.length;
  } else {
    if (message.other_count == message.others.size()) std::abort();
    message.others[message.other_count++] = entry.length;
  }
}

void judge(const Message& message, const VerbsHeader& header) {
  SentLedger& ledger = SentLedger::ofProcess();
  // Other words have no chunks.
  if (header.kind != VerbsKind::Request && header.kind != VerbsKind::Response &&
      header.kind != VerbsKind::ResponseWritten) {
    return;
  }
  SentLedger::add(ledger.messages, 1);
  // The answering process makes the head where it lies; bytes that stand behind it were copied.
  const uint64_t head_bytes = header.head_bytes + (header.kind == VerbsKind::ResponseWritten ? 0 : sizeof(VerbsHeader));
  ledger.addStray(message.first_bytes - std::min(message.first_bytes, head_bytes));
  for (size_t i = 0; i < message.other_count; ++i) ledger.addStray(message.others[i]);
}

int walkAndPost(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** refused) {
  Message message;
  for (const ibv_send_wr* request = first; request != nullptr; request = request->next) {
    if (request->opcode == IBV_WR_RDMA_READ) continue;
    for (int i = 0; i < request->num_sge; ++i) walk(message, request->sg_list[i]);
    if (request->opcode != IBV_WR_SEND) continue;
    VerbsHeader header{};
    std::copy_n(reinterpret_cast<const std::byte*>(request->sg_list[0].addr), sizeof(header),
                reinterpret_cast<std::byte*>(&header));
    judge(message, header);
    message = {};
  }
  return post_send(pair, first, refused);
}

}  // namespace

extern "C" {

ibv_context* ibv_open_device(ibv_device* device) {
  ibv_context* const context = next<ibv_context*(ibv_device*)>("ibv_open_device", "IBVERBS_1.1")(device);
  if (context == nullptr) return nullptr;
  // Of one driver; a process uses one device.
  if (post_send != nullptr && post_send != context->ops.post_send) std::abort();
  post_send = context->ops.post_send;
  context->ops.post_send = &walkAndPost;
  return context;
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* base, size_t bytes, int access) {
  RegisteredLog::note(base, bytes);
  return next<ibv_mr*(ibv_pd*, void*, size_t, int)>("ibv_reg_mr", "IBVERBS_1.1")(domain, base, bytes, access);
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* base, size_t bytes, uint64_t address, unsigned int access) {
  RegisteredLog::note(base, bytes);
  return next<ibv_mr*(ibv_pd*, void*, size_t, uint64_t, unsigned int)>("ibv_reg_mr_iova2", "IBVERBS_1.8")(
      domain, base, bytes, address, access);
}
}
