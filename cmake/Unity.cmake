# ramcore_sources_together(<list> <target> [BY_FOLDER]): with RAMCORE_UNITY, replaces the sources in the list by generated
# ones that include up to six of them each, by their paths from the root of the tree. A header that all of them include is
# parsed once and a template that all of them use is compiled once. What is compiled together shares one anonymous namespace,
# so the names in those of a folder differ. With BY_FOLDER no two folders are mixed. The layers are compiled so with
# sanitizers alone: how the product is compiled does not depend on this.
#
# These are compiled alone, because they use the names of their neighbours for something else, or have flags of their own.
set(RAMCORE_ALONE
  src/transport/registry/registry.cc
  tests/unit/backup/backup_service_test.cc tests/unit/coordinator/survey/log_salvage_test.cc)

function(ramcore_sources_together list target)
  if(NOT RAMCORE_UNITY)
    return()
  endif()
  set(batches "")
  set(count 0)
  set(folder_before "")
  set(sources ${${list}})
  if(ARGN STREQUAL "BY_FOLDER")
    # The sources of a folder come together, before those of the folders in it.
    list(TRANSFORM sources REPLACE "/([^/]*)$" "/ /\\1")
    list(SORT sources)
    list(TRANSFORM sources REPLACE "/ /" "/")
  endif()
  foreach(source IN LISTS sources)
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${source})
    if(path IN_LIST RAMCORE_ALONE)
      list(APPEND batches ${source})
      continue()
    endif()
    get_filename_component(folder ${path} DIRECTORY)
    if(ARGN STREQUAL "BY_FOLDER" AND NOT folder STREQUAL folder_before)
      math(EXPR count "(${count} + 5) / 6 * 6")
      set(folder_before ${folder})
    endif()
    math(EXPR number "${count} / 6")
    set(file ${CMAKE_BINARY_DIR}/generated/together/${target}_${number}.cc)
    set(content_${file} "${content_${file}}#include \"${path}\"\n")
    list(APPEND batches ${file})
    math(EXPR count "${count} + 1")
  endforeach()
  list(REMOVE_DUPLICATES batches)
  # Written when the content changes, not whenever CMake runs.
  foreach(file IN LISTS batches)
    if(content_${file})
      file(CONFIGURE OUTPUT ${file} CONTENT "${content_${file}}" @ONLY)
    endif()
  endforeach()
  set(${list} ${batches} PARENT_SCOPE)
endfunction()
