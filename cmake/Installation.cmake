# What `cmake --install` puts on a machine: the tools, libramcore (static and shared) with its headers, a CMake package, a
# pkg-config file, the systemd units and the user they run as.
include(CMakePackageConfigHelpers)

if(RAMCORE_TOOLS)
  install(TARGETS ${RAMCORE_TOOLS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# Units name the tools by their full path, which is known only when the prefix is: `cmake --install --prefix` may change it.
file(GLOB ramcore_units CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/packaging/systemd/*.service.in)
foreach(unit IN LISTS ramcore_units)
  get_filename_component(name ${unit} NAME_WLE)
  install(CODE "
    set(RAMCORE_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
    cmake_path(ABSOLUTE_PATH RAMCORE_BINDIR BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
    configure_file(\"${unit}\" \"${CMAKE_BINARY_DIR}/generated/${name}\" @ONLY)")
  install(FILES ${CMAKE_BINARY_DIR}/generated/${name} DESTINATION lib/systemd/system)
endforeach()
install(FILES ${CMAKE_SOURCE_DIR}/packaging/sysusers/ramcore.conf DESTINATION lib/sysusers.d)

# libramcore is the client and everything below it. It comes from the same object files as the layers; sanitized builds
# are not for installing.
file(GLOB ramcore_public_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/ramcore/*.h)
add_custom_target(libramcore)
if(ramcore_public_headers AND NOT RAMCORE_LAYER_client_EMPTY AND NOT RAMCORE_SANITIZE)
  set(ramcore_objects "")
  foreach(layer base runtime wire transport rpc client)
    if(NOT RAMCORE_LAYER_${layer}_EMPTY)
      list(APPEND ramcore_objects $<TARGET_OBJECTS:ramcore_${layer}_objects>)
    endif()
  endforeach()
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/libramcore.cc CONTENT "// The library is its layers' objects.\n")

  add_library(ramcore_shared SHARED ${CMAKE_BINARY_DIR}/generated/libramcore.cc ${ramcore_objects})
  # The third-party libraries by their plain names: what the shared library records, and what a program that links the
  # static one adds (ramcoreConfig.cmake.in, ramcore.pc.in).
  set(RAMCORE_LINK_NAMES protobuf spdlog fmt isal xxhash sodium urcu-qsbr crypto pthread)
  if(RAMCORE_VERBS)
    list(APPEND RAMCORE_LINK_NAMES ibverbs)
  endif()
  if(RAMCORE_DPDK)
    list(APPEND RAMCORE_LINK_NAMES rte_ethdev rte_mbuf rte_mempool rte_eal)
  endif()
  target_link_libraries(ramcore_shared PRIVATE ${RAMCORE_LINK_NAMES})
  set(ramcore_symbols ${CMAKE_SOURCE_DIR}/cmake/libramcore.map)
  target_link_options(ramcore_shared PRIVATE -Wl,-z,defs -Wl,--version-script=${ramcore_symbols})
  set_target_properties(ramcore_shared PROPERTIES LINK_DEPENDS ${ramcore_symbols}
    OUTPUT_NAME ramcore LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

  # The static library is one object in which only what the shared one exports is global: what two objects of an archive call
  # each other by would be seen by the program, too. Groups of sections that a linker takes once (inline functions and
  # templates) are dissolved, or those of the program would take the place of ours. This needs GNU ld; lld keeps the groups.
  find_program(RAMCORE_LD_BFD ld.bfd REQUIRED)
  find_program(RAMCORE_OBJCOPY objcopy REQUIRED)
  find_program(RAMCORE_NM NAMES llvm-nm-19 nm REQUIRED)
  mark_as_advanced(RAMCORE_LD_BFD RAMCORE_OBJCOPY RAMCORE_NM)
  set(ramcore_archive ${CMAKE_BINARY_DIR}/lib/libramcore.a)
  add_custom_command(OUTPUT ${ramcore_archive}
    COMMAND ${CMAKE_COMMAND} -E env LD=${RAMCORE_LD_BFD} OBJCOPY=${RAMCORE_OBJCOPY} NM=${RAMCORE_NM} AR=${CMAKE_AR}
            ${CMAKE_SOURCE_DIR}/cmake/static_library.sh $<TARGET_FILE:ramcore_shared> ${ramcore_archive} ${ramcore_objects}
    DEPENDS ramcore_shared ${ramcore_objects} ${CMAKE_SOURCE_DIR}/cmake/static_library.sh
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(ramcore_static DEPENDS ${ramcore_archive})
  add_dependencies(libramcore ramcore_static ramcore_shared)

  install(TARGETS ramcore_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${ramcore_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY include/ramcore DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

  set(ramcore_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ramcore)
  configure_package_config_file(cmake/ramcoreConfig.cmake.in ${CMAKE_BINARY_DIR}/generated/ramcoreConfig.cmake
    INSTALL_DESTINATION ${ramcore_package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/ramcoreConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/generated/ramcoreConfig.cmake ${CMAKE_BINARY_DIR}/generated/ramcoreConfigVersion.cmake
    DESTINATION ${ramcore_package_dir})
  list(TRANSFORM RAMCORE_LINK_NAMES PREPEND "-l" OUTPUT_VARIABLE ramcore_pc_libs)
  list(JOIN ramcore_pc_libs " " RAMCORE_PC_LIBS_PRIVATE)
  file(RELATIVE_PATH RAMCORE_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(cmake/ramcore.pc.in ${CMAKE_BINARY_DIR}/generated/ramcore.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/generated/ramcore.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
