#include "wire/opcodes.h"

#include "base/enum_name.h"

namespace ramcore::wire {

std::string_view name(Opcode opcode) { return EnumNames<Opcode, kOpcodeCount>::of(opcode, "Unknown"); }

}  // namespace ramcore::wire
