# Every switch of the build.
set(RAMCORE_MARCH "x86-64-v2" CACHE STRING "-march of the whole build; more than the baseline only for measurements")
set(RAMCORE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=: empty, 'address,undefined' or 'thread'")
option(RAMCORE_FUZZ "Instrument everything for libFuzzer and build tests/fuzz/*_fuzz.cc" OFF)
option(RAMCORE_MUTATIONS "Compile in the deliberate defects (RC_MUTATION) that the simulator has to catch" OFF)
option(RAMCORE_PCH "Parse the headers of the standard library and of third parties once for all sources" ON)
option(RAMCORE_UNITY "Compile the sources of each test and tool together: cheaper when everything is compiled" OFF)
option(RAMCORE_VERBS "Build the transport for InfiniBand and RoCE (needs libibverbs to build; a device only to be used)" ON)
option(RAMCORE_TESTS "Build the tests and benchmarks" ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()

# Folders below src/ whose sources are not built. The one file that uses them is told; all others are the same in every build.
set(RAMCORE_LEFT_OUT "")
if(RAMCORE_VERBS)
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/transport/registry.cc APPEND PROPERTY COMPILE_DEFINITIONS RAMCORE_HAS_VERBS=1)
else()
  list(APPEND RAMCORE_LEFT_OUT transport/verbs)
endif()
