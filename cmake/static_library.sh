#!/bin/sh
# Makes an archive of one object in which only those symbols are global that the shared library exports.
# Usage: static_library.sh <shared library> <archive> <object>...   with LD (GNU), OBJCOPY, NM and AR in the environment
set -eu
shared=$1 archive=$2
shift 2
object=${archive%.a}.o
trap 'rm -f "$object" "$object.symbols"' EXIT
"$LD" -r --force-group-allocation -o "$object" "$@"
"$NM" -D --defined-only --format=posix "$shared" | sed 's/[ @].*//' | grep -v '^RAMCORE_' >"$object.symbols"
# An address-significance table names symbols by numbers that are others now.
"$OBJCOPY" --remove-section=.llvm_addrsig --keep-global-symbols="$object.symbols" "$object"
rm -f "$archive"
"$AR" rcs "$archive" "$object"
