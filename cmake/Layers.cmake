# One library per folder of src/. See docs/building.md.
set(RAMCORE_LAYERS "" CACHE INTERNAL "Layers in order, lowest first")
set(RAMCORE_ROOMS "" CACHE INTERNAL "Rooms, as <layer>/<folder>; <layer>/. is the layer's own folder")

# Generates C++ from the layer's *.proto and adds it to `objects` as "<layer>/<name>.pb.h". Generated code is compiled
# without our warnings and without UBSan, and its headers are SYSTEM includes.
function(ramcore_generate_protobuf layer objects)
  file(GLOB protos CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${layer}/*.proto)
  set(out ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(${objects} PUBLIC protobuf::libprotobuf)
  set(generated "")
  set(without_ubsan "")
  if(RAMCORE_SANITIZE MATCHES "undefined")
    set(without_ubsan -fno-sanitize=undefined)
  endif()
  foreach(proto IN LISTS protos)
    get_filename_component(name ${proto} NAME_WE)
    set(pb_cc ${out}/${layer}/${name}.pb.cc)
    set(pb_h ${out}/${layer}/${name}.pb.h)
    add_custom_command(
      OUTPUT ${pb_cc} ${pb_h}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${out}/${layer}
      COMMAND protobuf::protoc --cpp_out=${out} -I ${CMAKE_SOURCE_DIR}/src ${proto}
      DEPENDS ${proto}
      VERBATIM)
    list(APPEND generated ${pb_cc})
    set_property(SOURCE ${pb_cc} PROPERTY COMPILE_OPTIONS -w ${without_ubsan})
    target_sources(${objects} PRIVATE ${pb_cc} ${pb_h})
  endforeach()
  if(protos)
    # Users of the layer include generated headers, so these have to exist before any of them compiles.
    add_custom_target(ramcore_${layer}_protobuf DEPENDS ${generated})
    set_property(GLOBAL PROPERTY RAMCORE_GENERATED_${layer} ramcore_${layer}_protobuf)
  endif()
endfunction()

# ramcore_layer(<name> [PROTOBUF] [DEPENDS <layer>...] [VENDOR <target>...] [WITHOUT <folder below src>...])
# Defines library ramcore_<name> from src/<name>/**.cc, and ramcore_<name>_objects, its object files (libramcore is made
# of these). A folder without sources becomes an interface library, so that the tree configures at every stage.
function(ramcore_layer name)
  cmake_parse_arguments(ARG "PROTOBUF" "" "DEPENDS;VENDOR;WITHOUT" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  foreach(folder IN LISTS ARG_WITHOUT)
    list(FILTER sources EXCLUDE REGEX "/src/${folder}/")
  endforeach()
  file(GLOB_RECURSE protos CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.proto)
  set(RAMCORE_LAYERS ${RAMCORE_LAYERS} ${name} CACHE INTERNAL "Layers in order, lowest first")
  set(RAMCORE_LAYER_${name}_DEPENDS ${ARG_DEPENDS} CACHE INTERNAL "Layers that ${name} may use")
  set(RAMCORE_LAYER_${name}_VENDOR ${ARG_VENDOR} CACHE INTERNAL "Third-party libraries of ${name}")
  set(RAMCORE_LAYER_${name}_EMPTY TRUE CACHE INTERNAL "Whether ${name} has no sources")
  list(TRANSFORM ARG_DEPENDS PREPEND ramcore_ OUTPUT_VARIABLE layer_libraries)

  if(NOT sources AND NOT (ARG_PROTOBUF AND protos))
    add_library(ramcore_${name} INTERFACE)
    target_include_directories(ramcore_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(ramcore_${name} INTERFACE ${layer_libraries} ${ARG_VENDOR})
    return()
  endif()
  set(RAMCORE_LAYER_${name}_EMPTY FALSE CACHE INTERNAL "Whether ${name} has no sources")

  add_library(ramcore_${name}_objects OBJECT ${sources})
  target_include_directories(ramcore_${name}_objects PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_include_directories(ramcore_${name}_objects SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(ramcore_${name}_objects PRIVATE ramcore_warnings ${ARG_VENDOR} PUBLIC ${layer_libraries})
  if(ARG_PROTOBUF)
    ramcore_generate_protobuf(${name} ramcore_${name}_objects)
  endif()
  foreach(layer IN LISTS ARG_DEPENDS)
    get_property(generated GLOBAL PROPERTY RAMCORE_GENERATED_${layer})
    if(generated)
      add_dependencies(ramcore_${name}_objects ${generated})
    endif()
  endforeach()
  ramcore_use_pch(ramcore_${name}_objects library)

  add_library(ramcore_${name} STATIC $<TARGET_OBJECTS:ramcore_${name}_objects>)
  target_include_directories(ramcore_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_include_directories(ramcore_${name} SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(ramcore_${name} PRIVATE ${ARG_VENDOR} PUBLIC ${layer_libraries})
  if(ARG_PROTOBUF)
    target_link_libraries(ramcore_${name} PUBLIC protobuf::libprotobuf)
    get_property(generated GLOBAL PROPERTY RAMCORE_GENERATED_${name})
    if(generated)
      add_dependencies(ramcore_${name} ${generated})
    endif()
  endif()
endfunction()

# ramcore_room(<layer> <folder> [USES <folder>...])
# Names a folder of a layer, or "." for what lies in the layer's own, and the folders of the same layer that it may use.
function(ramcore_room layer folder)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  set(RAMCORE_ROOMS ${RAMCORE_ROOMS} ${layer}/${folder} CACHE INTERNAL "Rooms, as <layer>/<folder>")
  list(TRANSFORM ARG_USES PREPEND "${layer}/")
  set(RAMCORE_ROOM_${layer}/${folder}_USES "${ARG_USES}" CACHE INTERNAL "Rooms that ${layer}/${folder} may use")
endfunction()

# Everything that is below tools/ and tests/ may use: all layers.
function(ramcore_all_layers out)
  list(TRANSFORM RAMCORE_LAYERS PREPEND ramcore_ OUTPUT_VARIABLE libraries)
  set(${out} ${libraries} PARENT_SCOPE)
endfunction()
