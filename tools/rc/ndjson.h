#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "ramcore/types.h"

namespace ramcore::rc {

/// True if `bytes` are well-formed UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool isUtf8(std::string_view bytes);
std::string encodeBase64(std::string_view bytes);
/// False if `text` is not base64 with padding (RFC 4648).
bool decodeBase64(std::string_view text, std::string& out);

/// One line of an export: an object with `key`, `value` and `version`; instead of the first two `key64` and `value64`
/// (base64) where the bytes are not UTF-8. Without the line end.
std::string toLine(const Object& object);
/// Reads such a line. `version` may be missing, other members are errors, and so is one that comes
/// twice. Failure: BadRequest, with what is wrong.
Outcome<Object> fromLine(std::string_view line);

}  // namespace ramcore::rc
