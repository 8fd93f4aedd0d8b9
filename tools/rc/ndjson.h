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

/// One line of an export, without the line end: an object with `key`, `value` and `version`. A key or a value that is
/// not UTF-8 is in `key64` or `value64` instead, as base64.
std::string toLine(const Object& object);
/// Reads such a line. `version` may be missing. An unknown member is an error, and so is a member that comes twice.
/// Failure: BadRequest, with what is wrong.
Outcome<Object> fromLine(std::string_view line);

}  // namespace ramcore::rc
