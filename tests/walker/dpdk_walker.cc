// Loaded in front of DPDK (LD_PRELOAD), into a server that knows nothing of it: looks at each chain right before the
// driver gets it, in the call that DPDK has for that.
#include <dlfcn.h>
#include <rte_config.h>

#include <rte_ethdev.h>

#include <algorithm>

#include "walker/sent_ledger.h"
#include "wire/datagram_messages.h"

namespace {

using ramcore::walker::RegisteredLog;
using ramcore::walker::SentLedger;
using ramcore::wire::FrameStart;
using ramcore::wire::kPacketHeaderBytes;
using ramcore::wire::PacketHeader;
using ramcore::wire::PacketKind;

template <typename Function>
Function* next(const char* name) {
  auto* const found = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
  if (found == nullptr) std::abort();
  return found;
}

template <typename T>
T load(const std::byte* at) {
  T value{};
  std::copy_n(at, sizeof(T), reinterpret_cast<std::byte*>(&value));
  return value;
}

void walk(const rte_mbuf& frame) {
  SentLedger& ledger = SentLedger::ofProcess();
  const auto* const at = rte_pktmbuf_mtod(&frame, const std::byte*);
  if (frame.data_len < kPacketHeaderBytes) return;
  const auto start = load<FrameStart>(at);
  const auto header = load<PacketHeader>(at + sizeof(FrameStart));
  SentLedger::add(ledger.payload_bytes, frame.pkt_len - kPacketHeaderBytes);
  // Other words have no chunks.
  if (start.kind != PacketKind::Request && start.kind != PacketKind::Response) return;
  SentLedger::add(ledger.messages, 1);
  // The answering process makes the head where it lies; bytes that stand behind it were copied.
  const uint64_t behind = frame.data_len - kPacketHeaderBytes;
  const uint64_t head_left = header.head_bytes - std::min(header.head_bytes, header.offset);
  ledger.addStray(behind - std::min(behind, head_left));
  for (const rte_mbuf* piece = frame.next; piece != nullptr; piece = piece->next) {
    if (!RegisteredLog::holds(reinterpret_cast<uint64_t>(rte_pktmbuf_mtod(piece, const std::byte*)), piece->data_len)) {
      ledger.addStray(piece->data_len);
      continue;
    }
    SentLedger::add(ledger.log_bytes, piece->data_len);
    SentLedger::add(ledger.log_pieces, 1);
    if ((header.flags & ramcore::wire::kPacketAgain) != 0) SentLedger::add(ledger.again_bytes, piece->data_len);
  }
}

// (It gets all that is handed over; what a full ring leaves comes again, and is counted again.)
uint16_t walkBurst(uint16_t, uint16_t, rte_mbuf** frames, uint16_t count, void*) {
  for (uint16_t i = 0; i < count; ++i) walk(*frames[i]);
  return count;
}

}  // namespace

extern "C" {

int rte_eth_dev_start(uint16_t port) {
  static std::array<std::atomic<bool>, RTE_MAX_ETHPORTS> is_walked{};
  const int error = next<int(uint16_t)>("rte_eth_dev_start")(port);
  // A port whose other end is not there is started again and again.
  if (error == 0 && !is_walked[port].exchange(true) &&
      rte_eth_add_tx_callback(port, 0, &walkBurst, nullptr) == nullptr) {
    std::abort();
  }
  return error;
}

int rte_extmem_register(void* base, size_t bytes, rte_iova_t addresses[], unsigned int pages, size_t page_bytes) {
  RegisteredLog::note(base, bytes);
  return next<int(void*, size_t, rte_iova_t*, unsigned int, size_t)>("rte_extmem_register")(base, bytes, addresses,
                                                                                            pages, page_bytes);
}
}
