/// Locators as text, from flags, files and other processes: what is accepted prints to a text that means the same.

#include <cstdlib>

#include "fuzz/planted.h"
#include "transport/locator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ramcore::transport::Locator;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto parsed = Locator::parse(text);
  if (!parsed.ok()) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  const auto again = Locator::parse(parsed->toString());
  if (!again.ok() || !(*again == *parsed)) std::abort();
  static_cast<void>(ramcore::transport::isLocalOnly(*parsed));
  for (const auto& [name, value] : parsed->options) ramcore::fuzz::crashIfPlanted(value.empty());
  return 0;
}
