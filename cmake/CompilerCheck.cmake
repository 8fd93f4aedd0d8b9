# Refuses a compiler that miscompiles coroutines: tests/unit/runtime/compiler_test.cc holds the shapes that g++ 12 gets
# wrong without a warning. The verdict is kept in the cache, keyed by compiler, flags and the file's content.
set(ramcore_shapes ${CMAKE_SOURCE_DIR}/tests/unit/runtime/compiler_test.cc)
if(EXISTS ${ramcore_shapes})
  file(SHA256 ${ramcore_shapes} ramcore_shapes_hash)
  set(ramcore_check_key
      "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_CXX_FLAGS} ${CMAKE_BUILD_TYPE} ${ramcore_shapes_hash}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ramcore_shapes})
  if(NOT RAMCORE_COMPILER_CHECKED STREQUAL ramcore_check_key)
    message(STATUS "Checking that the compiler handles coroutines")
    unset(RAMCORE_SHAPES_RUN CACHE)
    unset(RAMCORE_SHAPES_COMPILED CACHE)
    set(CMAKE_TRY_COMPILE_CONFIGURATION ${CMAKE_BUILD_TYPE})
    try_run(RAMCORE_SHAPES_RUN RAMCORE_SHAPES_COMPILED
      SOURCES ${ramcore_shapes}
      COMPILE_DEFINITIONS -DRAMCORE_CONFIGURE_CHECK=1
      COMPILE_OUTPUT_VARIABLE ramcore_shapes_compile_output
      RUN_OUTPUT_VARIABLE ramcore_shapes_run_output
      CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    if(NOT RAMCORE_SHAPES_COMPILED OR NOT RAMCORE_SHAPES_RUN EQUAL 0)
      set(ramcore_shapes_output "${ramcore_shapes_run_output}")
      if(NOT RAMCORE_SHAPES_COMPILED)
        set(ramcore_shapes_output "${ramcore_shapes_compile_output}")
      endif()
      message(FATAL_ERROR
        "${CMAKE_CXX_COMPILER} (${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}) miscompiles coroutines that "
        "Ramcore relies on. Use clang 19 (tools/setup installs it; the presets choose it).\n${ramcore_shapes_output}")
    endif()
    message(STATUS "Checking that the compiler handles coroutines - yes")
    set(RAMCORE_COMPILER_CHECKED "${ramcore_check_key}" CACHE INTERNAL "What the coroutine check passed for")
  endif()
endif()
