# Headers of the standard library and of third parties, parsed once and shared by all sources of a kind.
#
# CMake's own precompiled headers are not used: they hold the path of the build, so that ccache finds nothing when the same
# sources are built in another folder. These hold headers below /usr only, and their command has no path of the tree: two
# builds anywhere make the same bytes. A header of the project never belongs here, for the same reason and because a change
# of it would compile everything again.
#
# A source still includes what it uses: tests/link/include_scan.py checks that for the names of the standard library, and
# the generated sources of tests/link, which have each header alone, get a precompiled one without third parties.
set(RAMCORE_PCH_STD
  algorithm array atomic bit charconv chrono cinttypes compare condition_variable coroutine cstddef cstdint cstdio cstdlib
  cstring deque functional initializer_list iterator limits list map memory mutex new optional set span string string_view
  thread tuple type_traits unordered_map utility vector immintrin.h)
set(RAMCORE_PCH_PROTOBUF
  google/protobuf/arena.h google/protobuf/arenastring.h google/protobuf/generated_message_util.h
  google/protobuf/io/coded_stream.h google/protobuf/message_lite.h google/protobuf/repeated_field.h)

# ramcore_define_pch(<name> HEADERS h... FLAGS f...): defines generated/<name>.pch, built by the build's flags and FLAGS, which
# have to be those of its users. (-fpch-instantiate-templates instantiates in the header what it can.)
function(ramcore_define_pch name)
  cmake_parse_arguments(ARG "" "" "HEADERS;FLAGS" ${ARGN})
  get_directory_property(options COMPILE_OPTIONS)
  string(TOUPPER ${CMAKE_BUILD_TYPE} type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  set(includes "")
  foreach(header IN LISTS ARG_HEADERS)
    list(APPEND includes -include ${header})
  endforeach()
  # A command needs a main file, and its path is kept: one below /usr, which the others include anyway.
  find_file(RAMCORE_PCH_MAIN unistd.h REQUIRED)
  mark_as_advanced(RAMCORE_PCH_MAIN)
  add_custom_command(
    OUTPUT ${CMAKE_BINARY_DIR}/generated/${name}.pch
    COMMAND ${CMAKE_COMMAND} -E make_directory generated
    COMMAND ${CMAKE_CXX_COMPILER} ${flags} ${options} ${ARG_FLAGS} -std=c++20 -x c++-header ${includes} -Xclang
            -fno-pch-timestamp -fpch-instantiate-templates -MD -MF generated/${name}.pch.d -MT generated/${name}.pch
            ${RAMCORE_PCH_MAIN} -o generated/${name}.pch
    DEPFILE ${CMAKE_BINARY_DIR}/generated/${name}.pch.d
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
    COMMENT "Precompiling ${name}.pch"
    VERBATIM)
  # A target of its own, without dependencies: the header need not wait for what its users are linked with.
  add_custom_target(ramcore_pch_${name} DEPENDS ${CMAKE_BINARY_DIR}/generated/${name}.pch)
endfunction()

# ramcore_use_pch(<target> <name>): the target's sources of now start from that header. The path is relative to the build's
# folder, where all commands run.
function(ramcore_use_pch target name)
  if(NOT RAMCORE_PCH)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  set_property(SOURCE ${sources} APPEND PROPERTY OBJECT_DEPENDS ${CMAKE_BINARY_DIR}/generated/${name}.pch)
  add_dependencies(${target} ramcore_pch_${name})
  target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp -include-pch generated/${name}.pch")
endfunction()

if(RAMCORE_PCH)
  ramcore_define_pch(standard HEADERS ${RAMCORE_PCH_STD} FLAGS -fPIC -fvisibility=default -O0 -g0)
  # Code for a library and code for an executable cannot share one: -fPIC or -fPIE is part of it.
  ramcore_define_pch(library HEADERS ${RAMCORE_PCH_STD} ${RAMCORE_PCH_PROTOBUF} FLAGS -fPIC -fvisibility=default)
  ramcore_define_pch(program HEADERS ${RAMCORE_PCH_STD} ${RAMCORE_PCH_PROTOBUF}
                     FLAGS -fPIE -fvisibility=default ${RAMCORE_DRIVER_FLAGS})
  ramcore_define_pch(test HEADERS ${RAMCORE_PCH_STD} ${RAMCORE_PCH_PROTOBUF} gtest/gtest.h gmock/gmock.h
                     FLAGS -fPIE -fvisibility=default -DGTEST_HAS_PTHREAD=1 ${RAMCORE_TEST_FLAGS})
  ramcore_define_pch(computing_test HEADERS ${RAMCORE_PCH_STD} ${RAMCORE_PCH_PROTOBUF} gtest/gtest.h gmock/gmock.h
                     FLAGS -fPIE -fvisibility=default -DGTEST_HAS_PTHREAD=1 ${RAMCORE_COMPUTING_TEST_FLAGS})
  if(RAMCORE_FUZZ)
    ramcore_define_pch(fuzz HEADERS ${RAMCORE_PCH_STD} ${RAMCORE_PCH_PROTOBUF} FLAGS -fPIE -fvisibility=default)
  endif()
endif()
