/// Lines of a file that somebody imports: refused with a reason, or an object that is exported to a line that means the
/// same.

#include <cstdlib>

#include "fuzz/planted.h"
#include "tools/rc/ndjson.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ramcore;
  const auto object = rc::fromLine({reinterpret_cast<const char*>(data), size});
  if (!object.ok()) {
    if (object.error().message.empty()) std::abort();
    return 0;
  }
  const std::string line = rc::toLine(*object);
  if (line.find('\n') != std::string::npos) std::abort();
  const auto again = rc::fromLine(line);
  if (!again.ok() || again->key != object->key || again->value != object->value || again->version != object->version) {
    std::abort();
  }
  fuzz::crashIfPlanted(object->key.size() > 2);
  return 0;
}
