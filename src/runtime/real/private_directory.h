#pragma once

#include <unistd.h>

#include <string>
#include <system_error>

namespace ramcore::runtime {

/// Makes a directory that nobody but this user may look into, and those above it, with the usual rights, where they are
/// missing. One that is there stays as it is: somebody may have meant it so. No error: there is a directory now, and
/// those that were made are there after a power failure, too.
/// @param flush  fsync, or what a test puts in its place
std::error_code makePrivateDirectory(const std::string& path, int (*flush)(int descriptor) = &::fsync);

}  // namespace ramcore::runtime
