#pragma once

#include <string>
#include <system_error>

namespace ramcore::runtime {

/// Makes a directory that nobody but this user may look into, and those above it, with the usual rights, where they are
/// missing. One that is there stays as it is: somebody may have meant it so. No error: there is a directory now.
std::error_code makePrivateDirectory(const std::string& path);

}  // namespace ramcore::runtime
