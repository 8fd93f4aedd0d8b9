# Language, warnings, code generation, sanitizers, linker and compiler cache: the same for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET default)

# -g1 keeps line numbers for stack traces and costs little to compile and link.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g1")

add_compile_options(-march=${RAMCORE_MARCH} -fno-omit-frame-pointer)
add_link_options(-fuse-ld=lld)

# What makes it hard to turn a wrong write into more than an end: canaries, checked copies, marked targets of jumps,
# addresses that are drawn anew at each start, and tables of the linker that nobody writes to once main() begins. Sanitizers
# look for the same, better. tests/link/hardening_scan.py looks whether the programs have it.
if(NOT RAMCORE_SANITIZE AND NOT RAMCORE_FUZZ)
  add_compile_options(-fstack-protector-strong -fcf-protection=full -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)
endif()

if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_definitions(RAMCORE_DCHECK=1)
endif()
# Said by a header that the few sources with planted defects include: src/base/mutation.h.
set(ramcore_mutations "// This build has no planted defects.\n")
if(RAMCORE_MUTATIONS)
  set(ramcore_mutations "#define RAMCORE_MUTATIONS 1\n")
endif()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/base/mutations_enabled.h @ONLY
     CONTENT "#pragma once\n@ramcore_mutations@")

if(RAMCORE_SANITIZE)
  add_compile_options(-fsanitize=${RAMCORE_SANITIZE} -fno-sanitize-recover=all)
  # What is inlined is instrumented once more at each place: with little of it, a source takes down to three quarters of the
  # time to compile, and the simulator a sixth longer to run.
  add_compile_options(-mllvm -inline-threshold=50)
  # The check of objects' types opens a pipe to look at one that is not in its cache, and takes a sound object for none where
  # the process has no descriptor left: daemons without descriptors are among what is tested.
  if(RAMCORE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=vptr)
  endif()
  add_link_options(-fsanitize=${RAMCORE_SANITIZE})
  add_compile_definitions(RAMCORE_SANITIZED=1)
endif()
# Flags of tools, tests and benchmarks, which drive the layers and the simulator. libFuzzer needs no coverage of them. What is
# instrumented costs the optimizer three times what the rest of the compiler costs, so there they are not optimized; nor are
# tests anywhere, but for those that compute for long (ramcore_gtest).
set(RAMCORE_DRIVER_FLAGS "")
set(RAMCORE_COMPUTING_TEST_FLAGS "")
if(RAMCORE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  list(APPEND RAMCORE_DRIVER_FLAGS -fno-sanitize=fuzzer-no-link)
  list(APPEND RAMCORE_COMPUTING_TEST_FLAGS -fno-sanitize=fuzzer-no-link)
endif()
if(RAMCORE_SANITIZE)
  list(APPEND RAMCORE_DRIVER_FLAGS -O0)
endif()
set(RAMCORE_TEST_FLAGS ${RAMCORE_COMPUTING_TEST_FLAGS} -O0)

# Warnings are for our own sources only, not for generated ones: targets ask for them by name.
add_library(ramcore_warnings INTERFACE)
target_compile_options(ramcore_warnings INTERFACE -Wall -Wextra -Werror -Wthread-safety)

# The cache is told the root of the tree so that a hit does not depend on where the tree or the build lies. The
# sloppiness settings are what ccache needs to cache translation units that use a precompiled header. What a source
# includes is taken from the compiler's list: preprocessing everything for that takes a tenth of a build.
find_program(RAMCORE_CCACHE ccache)
mark_as_advanced(RAMCORE_CCACHE)
if(RAMCORE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(ramcore_launcher
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_DEPEND=1 ${RAMCORE_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${ramcore_launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ramcore_launcher})
endif()
