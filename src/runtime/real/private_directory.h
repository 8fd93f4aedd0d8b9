#pragma once

#include <unistd.h>

#include <string>
#include <system_error>

namespace ramcore::runtime {

/// Makes a directory that only this user may look into, and the missing ones above it with the usual rights. A
/// directory that exists stays as it is, because its rights may be intended. No error: there is a directory now, and
/// those that were made are there after a power failure, too.
/// @param flush  fsync, or what a test puts in its place
std::error_code makePrivateDirectory(const std::string& path, int (*flush)(int descriptor) = &::fsync);

}  // namespace ramcore::runtime
