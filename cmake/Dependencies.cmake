# Third-party libraries, all from the distribution's packages (tools/setup installs them). Every one is an imported or
# interface target with SYSTEM includes, so that warnings in their headers never fail our build.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(Protobuf REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)

pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(URCU_QSBR REQUIRED IMPORTED_TARGET liburcu-qsbr)
pkg_check_modules(SQLITE3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)

# What transports need; some may be left out.
add_library(ramcore_transport_deps INTERFACE)
target_link_libraries(ramcore_transport_deps INTERFACE PkgConfig::SODIUM)
if(RAMCORE_VERBS)
  pkg_check_modules(IBVERBS REQUIRED IMPORTED_TARGET libibverbs)
  target_link_libraries(ramcore_transport_deps INTERFACE PkgConfig::IBVERBS)
endif()

# Of DPDK's settings the folders only: with its -march the transport layer would be built for another machine than the rest.
# Its drivers are loaded when it starts.
if(RAMCORE_DPDK)
  pkg_check_modules(DPDK REQUIRED libdpdk>=22.11)
  foreach(library rte_eal rte_ethdev rte_mbuf rte_mempool)
    find_library(RAMCORE_${library} ${library} HINTS ${DPDK_LIBRARY_DIRS} REQUIRED)
    mark_as_advanced(RAMCORE_${library})
    target_link_libraries(ramcore_transport_deps INTERFACE ${RAMCORE_${library}})
  endforeach()
  set(folders ${DPDK_INCLUDE_DIRS})
  list(FILTER folders INCLUDE REGEX "dpdk")
  target_include_directories(ramcore_transport_deps SYSTEM INTERFACE ${folders})
endif()

# spdlog compiled into its library, with the distribution's fmt: header-only spdlog costs 4 s per file.
add_library(ramcore_spdlog INTERFACE)
target_link_libraries(ramcore_spdlog INTERFACE spdlog::spdlog fmt::fmt)

# Asio is used without the Boost libraries: headers only.
find_path(RAMCORE_BOOST_INCLUDE boost/asio.hpp REQUIRED)
mark_as_advanced(RAMCORE_BOOST_INCLUDE)
add_library(ramcore_asio INTERFACE)
target_include_directories(ramcore_asio SYSTEM INTERFACE ${RAMCORE_BOOST_INCLUDE})
target_compile_definitions(ramcore_asio INTERFACE BOOST_ASIO_NO_DEPRECATED)
target_link_libraries(ramcore_asio INTERFACE Threads::Threads)

# Command lines, JSON and the metrics endpoint: for tools and tests only.
find_path(RAMCORE_CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
find_path(RAMCORE_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
find_package(prometheus-cpp REQUIRED)
# The web server below prometheus-cpp, for the callbacks it takes, and for what it can do.
find_library(RAMCORE_CIVETWEB civetweb-cpp REQUIRED)
find_library(RAMCORE_CIVETWEB_C civetweb REQUIRED)
mark_as_advanced(RAMCORE_CLI11_INCLUDE RAMCORE_JSON_INCLUDE RAMCORE_CIVETWEB RAMCORE_CIVETWEB_C)
add_library(ramcore_cli11 INTERFACE)
target_include_directories(ramcore_cli11 SYSTEM INTERFACE ${RAMCORE_CLI11_INCLUDE})
add_library(ramcore_nlohmann_json INTERFACE)
target_include_directories(ramcore_nlohmann_json SYSTEM INTERFACE ${RAMCORE_JSON_INCLUDE})
add_library(ramcore_tool_deps INTERFACE)
target_link_libraries(ramcore_tool_deps INTERFACE prometheus-cpp::pull ${RAMCORE_CIVETWEB} ${RAMCORE_CIVETWEB_C})

if(RAMCORE_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()
