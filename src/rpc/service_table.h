#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "rpc/request.h"
#include "runtime/task.h"
#include "wire/opcodes.h"

namespace ramcore::rpc {

/// How a request is scheduled.
enum class Weight : uint8_t {
  Short,  ///< some microseconds at most: runs on the dispatch thread when that is allowed
  Long,   ///< always handed to a worker
};

/// What a service says about one opcode.
struct OpcodeRules {
  uint32_t roles = 0;  ///< one bit for each transport::Role that may ask for it; see allow()
  uint32_t request_bytes_min = sizeof(wire::RequestHeader);  ///< length of the fixed struct; shorter heads are refused
  bool any_target = false;                                   ///< true: the header's target is not compared with our id
  Weight weight = Weight::Short;
  /// True: always runs on the dispatch thread, whatever DispatchOptions::hand_off says. For services whose state
  /// belongs to that thread, or whose handlers rely on running one after the other.
  bool dispatch_only = false;
  /// If set, decides the weight by looking at the head (already request_bytes_min long).
  Weight (*weigh)(ByteSpan head) = nullptr;
};

constexpr uint32_t allow(std::initializer_list<transport::Role> roles) {
  uint32_t mask = 0;
  for (const transport::Role role : roles) mask |= 1U << static_cast<uint32_t>(role);
  return mask;
}

/// Which handler serves which opcode. Filled before the dispatch starts, read-only afterwards.
///
/// A handler is a member function of a service, either `void f(Request)` which answers before it returns or keeps the
/// request somewhere, or the coroutine `Task<void> f(Request)`, which runs detached until it has answered.
class ServiceTable {
 public:
  struct Entry {
    OpcodeRules rules;
    void* service = nullptr;
    void (*handle)(void* service, Request request) = nullptr;
    /// Optional: takes several requests of this opcode that arrived together and answers all of them.
    void (*handle_batch)(void* service, std::span<Request> requests) = nullptr;
  };

  template <auto Method, typename Service>
  void add(wire::Opcode opcode, Service& service, const OpcodeRules& rules) {
    Entry& entry = claim(opcode);
    entry.rules = rules;
    entry.service = &service;
    entry.handle = [](void* object, Request request) {
      auto& target = *static_cast<Service*>(object);
      using Returned = decltype((target.*Method)(std::move(request)));
      if constexpr (std::is_void_v<Returned>) {
        (target.*Method)(std::move(request));
      } else {
        (target.*Method)(std::move(request)).detach();
      }
    };
  }
  /// Adds a batch handler `void f(std::span<Request>)` to an opcode that has a single one.
  template <auto Method, typename Service>
  void addBatch(wire::Opcode opcode, Service&) {
    Entry& entry = entries_[static_cast<size_t>(opcode)];
    RC_CHECK(entry.handle != nullptr);
    entry.handle_batch = [](void* object, std::span<Request> requests) {
      (static_cast<Service*>(object)->*Method)(requests);
    };
  }

  /// nullptr if no service handles this number.
  const Entry* find(uint16_t opcode) const {
    if (opcode >= entries_.size() || entries_[opcode].handle == nullptr) return nullptr;
    return &entries_[opcode];
  }

 private:
  Entry& claim(wire::Opcode opcode) {
    Entry& entry = entries_[static_cast<size_t>(opcode)];
    RC_CHECK_MSG(entry.handle == nullptr, "two handlers for one opcode");
    return entry;
  }

  std::array<Entry, wire::kOpcodeCount> entries_{};
};

}  // namespace ramcore::rpc
