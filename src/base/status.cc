#include "base/status.h"

#include "base/enum_name.h"

namespace ramcore {

std::string_view name(Status status) { return EnumNames<Status, 128>::of(status, "Unknown"); }

}  // namespace ramcore
