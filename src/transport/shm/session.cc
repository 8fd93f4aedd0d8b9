#include "transport/shm/session.h"

namespace ramcore::transport::shm {

Channel::Channel(SharedMemory&& shared, bool is_server, MessagePool& pool, uint16_t slot_count)
    : memory(std::move(shared)),
      reader(is_server ? RingReader(memory.control().to_server, memory.ringToServer(), memory.ringBytes())
                       : RingReader(memory.control().to_client, memory.ringToClient(), memory.ringBytes()),
             pool, slot_count),
      writer(is_server ? RingWriter(memory.control().to_client, memory.ringToClient(), memory.ringBytes())
                       : RingWriter(memory.control().to_server, memory.ringToServer(), memory.ringBytes())),
      own_wakefulness(is_server ? memory.control().server_wakefulness : memory.control().client_wakefulness),
      peer_wakefulness(is_server ? memory.control().client_wakefulness : memory.control().server_wakefulness),
      calls(slot_count),
      requests(slot_count) {}

}  // namespace ramcore::transport::shm
