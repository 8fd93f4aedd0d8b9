#pragma once

// The generated control-plane messages, and how they are read from and written to bytes. Included by .cc files only: it
// costs seconds to compile.
#include <google/protobuf/stubs/logging.h>

#include "base/bytes.h"
#include "base/change_ref.h"
#include "wire/control.pb.h"

namespace ramcore::wire {

/// Control messages beyond this are refused before they are parsed.
inline constexpr size_t kControlBytesMax = 8 * 1024 * 1024;

/// Parses the bytes behind a request's or response's header. False if they are not such a message. Prints nothing,
/// although the parser would print a line to stderr for text that is not UTF-8.
template <typename Message>
[[nodiscard]] bool parseControl(ByteSpan bytes, Message& message) {
  const google::protobuf::LogSilencer silence;
  return bytes.size() <= kControlBytesMax && message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

/// Bytes that storeControl() will write. This fixes the sizes of nested messages, so the message must not change in
/// between.
template <typename Message>
[[nodiscard]] uint32_t controlBytes(const Message& message) {
  return static_cast<uint32_t>(message.ByteSizeLong());
}

/// Writes `message` to the controlBytes() writable bytes at `to`.
template <typename Message>
void storeControl(const Message& message, std::byte* to) {
  const google::protobuf::LogSilencer silence;
  message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(to));
}

inline ChangeRef changeOf(const control::ChangeRef& message) {
  return {.start = message.start(), .number = message.number()};
}
inline void fillChange(ChangeRef change, control::ChangeRef& out) {
  out.set_start(change.start);
  out.set_number(change.number);
}

}  // namespace ramcore::wire
