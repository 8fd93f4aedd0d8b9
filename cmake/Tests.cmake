# Tests: every folder is globbed, so a new *_test.cc needs no edit here. A folder without files yields no target.
add_custom_target(unit_tests)
add_custom_target(all_tests)
if(NOT RAMCORE_TESTS)
  return()
endif()

# ThreadSanitizer does not start on kernels that randomise mappings with 32 bits.
set(ramcore_test_launcher "")
if(RAMCORE_SANITIZE MATCHES "thread")
  set(ramcore_test_launcher setarch -R)
endif()

# ramcore_tests_of_flavour(<list>): under ThreadSanitizer, which has nothing to say of one thread, takes the tests away whose
# source starts none: neither by itself, nor by a transport or an executor that it includes. What tests share stays.
function(ramcore_tests_of_flavour list)
  if(NOT RAMCORE_SANITIZE MATCHES "thread")
    return()
  endif()
  set(kept "")
  foreach(source IN LISTS ${list})
    file(STRINGS ${source} starts REGEX "#include (<thread>|\"runtime/real/|\"unit/transport/(shm|tcp)/[a-z]+_harness\\.h)" LIMIT_COUNT 1)
    if(starts OR NOT source MATCHES "_test\\.cc$")
      list(APPEND kept ${source})
    endif()
  endforeach()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()

# What the tests above base get.
add_library(ramcore_test_support INTERFACE)
target_link_libraries(ramcore_test_support INTERFACE ramcore_runtime GTest::gtest GTest::gmock)
target_include_directories(ramcore_test_support INTERFACE ${CMAKE_SOURCE_DIR}/tests)

# ramcore_gtest(<target> <label> SOURCES ... LIBRARIES ... [TIMEOUT s] [SERIAL] [COMPUTES] [SHARDS n]): one test binary, one
# ctest entry, or n that share its cases.
# One that COMPUTES for longer than its optimized compilation takes is optimized.
function(ramcore_gtest target label)
  cmake_parse_arguments(ARG "SERIAL;COMPUTES" "TIMEOUT;SHARDS" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  ramcore_sources_together(ARG_SOURCES ${target})
  add_executable(${target} ${ARG_SOURCES})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ramcore_warnings ${ARG_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  if(ARG_COMPUTES)
    target_compile_options(${target} PRIVATE ${RAMCORE_COMPUTING_TEST_FLAGS})
    ramcore_use_pch(${target} computing_test)
  else()
    target_compile_options(${target} PRIVATE ${RAMCORE_TEST_FLAGS})
    ramcore_use_pch(${target} test)
  endif()
  # Several processors share the cases of a long test.
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    set(name ${target})
    if(ARG_SHARDS GREATER 1)
      set(name ${target}_${shard})
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name} COMMAND ${ramcore_test_launcher} $<TARGET_FILE:${target}>)
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${ARG_TIMEOUT}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
    if(ARG_SERIAL)
      set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
    endif()
  endforeach()
  add_dependencies(all_tests ${target})
endfunction()

foreach(layer IN LISTS RAMCORE_LAYERS)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${layer}/*.cc)
  if(NOT RAMCORE_VERBS)
    list(FILTER sources EXCLUDE REGEX "/verbs_[^/]*$")
  endif()
  ramcore_tests_of_flavour(sources)
  if(sources)
    set(libraries ramcore_${layer})
    if(NOT layer STREQUAL "base")
      list(APPEND libraries ramcore_test_support)
    endif()
    set(computes "")
    if(layer STREQUAL "log" AND NOT RAMCORE_SANITIZE)
      set(computes COMPUTES)
    endif()
    ramcore_gtest(unit_${layer}_test unit SOURCES ${sources} LIBRARIES ${libraries} ${computes})
    add_dependencies(unit_tests unit_${layer}_test)
  endif()
endforeach()

# The part of rcnic that judges figures, without what measures them.
file(GLOB ramcore_rcnic_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/rcnic/*.cc)
file(GLOB ramcore_rcnic_analysis CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/rcnic/analysis/*.cc)
ramcore_tests_of_flavour(ramcore_rcnic_tests)
if(ramcore_rcnic_tests)
  ramcore_gtest(unit_rcnic_test unit SOURCES ${ramcore_rcnic_tests} ${ramcore_rcnic_analysis}
                LIBRARIES ramcore_transport ramcore_test_support)
  add_dependencies(unit_tests unit_rcnic_test)
endif()

# What tools and tests have in common, and no layer has; and what the status tells of a server.
file(GLOB ramcore_tool_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/tools/*.cc)
ramcore_tests_of_flavour(ramcore_tool_tests)
if(ramcore_tool_tests)
  ramcore_gtest(unit_tools_test unit SOURCES ${ramcore_tool_tests} ${CMAKE_SOURCE_DIR}/tools/rc/server_json.cc
                ${CMAKE_SOURCE_DIR}/tools/rcmigrate/call_times.cc ${CMAKE_SOURCE_DIR}/tools/rcmigrate/plan.cc
                ${CMAKE_SOURCE_DIR}/tools/rcmigrate/plan_input.cc ${CMAKE_SOURCE_DIR}/tools/rcmigrate/selection.cc
                ${CMAKE_SOURCE_DIR}/tools/support/display.cc LIBRARIES ramcore_tool_cli ramcore_tool_json ramcore_client)
  add_dependencies(unit_tests unit_tools_test)
endif()

ramcore_all_layers(ramcore_layer_libraries)
foreach(layer IN LISTS RAMCORE_LAYERS)
  if(NOT RAMCORE_LAYER_${layer}_EMPTY)
    add_dependencies(all_tests ramcore_${layer})
  endif()
endforeach()

# The cases of the contract, compiled once for all transports.
file(GLOB ramcore_contract CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/contract/*.cc)
set(ramcore_contract_factories ${ramcore_contract})
list(FILTER ramcore_contract_factories INCLUDE REGEX "_factory\\.cc$")
list(FILTER ramcore_contract EXCLUDE REGEX "_factory\\.cc$")
if(ramcore_contract)
  ramcore_sources_together(ramcore_contract ramcore_contract)
  add_library(ramcore_contract OBJECT ${ramcore_contract})
  target_include_directories(ramcore_contract PUBLIC ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR})
  target_link_libraries(ramcore_contract PRIVATE ramcore_warnings PUBLIC ramcore_transport ramcore_test_support
                        GTest::gtest GTest::gmock)
  target_compile_options(ramcore_contract PRIVATE ${RAMCORE_COMPUTING_TEST_FLAGS})
  ramcore_gtest(contract_test contract SOURCES ${ramcore_contract_factories} LIBRARIES ramcore_contract COMPUTES)
endif()

# ramcore_contract_of(<target> SOURCES ... [LIBRARIES ...]): the contract for a transport that cannot be tried everywhere,
# with tests of its own.
function(ramcore_contract_of target)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/tests/)
  ramcore_sources_together(ARG_SOURCES ${target})
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ramcore_warnings ramcore_contract ${ARG_LIBRARIES} GTest::gtest_main)
  target_compile_options(${target} PRIVATE ${RAMCORE_COMPUTING_TEST_FLAGS})
  ramcore_use_pch(${target} computing_test)
  add_dependencies(all_tests ${target})
endfunction()

# Queue pairs need a device: run inside a machine that has software ones (tests/vm).
if(RAMCORE_VERBS)
  ramcore_contract_of(contract_verbs_test
    SOURCES vm/verbs_factory.cc vm/hostile_peer.cc vm/parts_world.cc vm/verbs_hostile_test.cc
            vm/verbs_hostile_server_test.cc vm/verbs_flood_test.cc vm/send_queue_test.cc)
endif()

# Ports of DPDK need root and a network namespace (tests/dpdk/run).
if(RAMCORE_DPDK)
  ramcore_contract_of(contract_dpdk_test
    SOURCES dpdk/dpdk_factory.cc dpdk/dpdk_borrowing_test.cc dpdk/dpdk_process_test.cc
    LIBRARIES ramcore_transport_deps)
endif()

# Loaded in front of the libraries of adapters: what is handed to these is judged by nobody who handed it over.
foreach(walker verbs dpdk)
  string(TOUPPER ${walker} adapter)
  if(RAMCORE_${adapter})
    add_library(${walker}_walker SHARED tests/walker/${walker}_walker.cc)
    target_include_directories(${walker}_walker PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${walker}_walker PRIVATE ramcore_warnings ramcore_transport_deps ${CMAKE_DL_LIBS})
    set_target_properties(${walker}_walker PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/walkers)
    add_dependencies(all_tests ${walker}_walker)
  endif()
endforeach()

# Goes through the orders in which threads may meet in code without locks. That code is compiled once more, with marks where
# threads may change and with its planted defects, so nothing of the layers' libraries may be linked beside it.
file(GLOB ramcore_steps CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/steps/*.cc)
if(ramcore_steps AND NOT RAMCORE_SANITIZE)  # one thread at a time; its threads of its own would be most of the cost
  foreach(source base/check base/mutation base/result base/status runtime/epoch runtime/sim/sim_epoch
          index/hash_index index/index_memory index/index_splitter index/line_pool)
    list(APPEND ramcore_steps ${CMAKE_SOURCE_DIR}/src/${source}.cc)
  endforeach()
  ramcore_gtest(steps_test unit SOURCES ${ramcore_steps} LIBRARIES Threads::Threads COMPUTES)
  target_include_directories(steps_test PRIVATE
    ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/generated)
  target_compile_definitions(steps_test PRIVATE RAMCORE_STEPS=1 RAMCORE_MUTATIONS=1)
endif()

# Counts the bytes of a log anew, for the simulator and the soak.
file(GLOB ramcore_accounting CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/accounting/*.cc)
if(ramcore_accounting)
  add_library(ramcore_accounting STATIC ${ramcore_accounting})
  target_link_libraries(ramcore_accounting PRIVATE ramcore_warnings PUBLIC ramcore_log)
  target_include_directories(ramcore_accounting PUBLIC ${CMAKE_SOURCE_DIR}/tests)
  ramcore_use_pch(ramcore_accounting library)
endif()

# The simulator: a library (cluster, workload, checkers), its tests, and an executable that runs seeds.
file(GLOB_RECURSE ramcore_sim CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/sim/*.cc)
set(ramcore_sim_tests ${ramcore_sim})
list(FILTER ramcore_sim_tests INCLUDE REGEX "_test\\.cc$")
list(FILTER ramcore_sim EXCLUDE REGEX "(_test|/main(_[a-z]+)?)\\.cc$")
if(ramcore_sim)
  ramcore_sources_together(ramcore_sim ramcore_simulator)
  add_library(ramcore_simulator STATIC ${ramcore_sim})
  target_link_libraries(ramcore_simulator PRIVATE ramcore_warnings ramcore_tool_json
                        PUBLIC ${ramcore_layer_libraries} ramcore_accounting)
else()
  add_library(ramcore_simulator INTERFACE)
  target_link_libraries(ramcore_simulator INTERFACE ${ramcore_layer_libraries})
endif()
target_include_directories(ramcore_simulator INTERFACE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR})
if(ramcore_sim)
  target_include_directories(ramcore_simulator PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR})
  ramcore_use_pch(ramcore_simulator library)
endif()
if(ramcore_sim_tests)
  set(computes COMPUTES)
  if(RAMCORE_SANITIZE)
    set(computes "")
    # Those that send a server what nobody should, damage its memory, or move a tablet. The others take minutes here, and the
    # simulator itself runs all of the code that they run.
    list(FILTER ramcore_sim_tests INCLUDE REGEX "/(master|memory)_[a-z_]*(hostile|damage|move|pull|hand_over|replay)[a-z_]*_test\\.cc$")
  endif()
  ramcore_gtest(sim_test sim SOURCES ${ramcore_sim_tests} LIBRARIES ramcore_simulator ramcore_test_support TIMEOUT 900 SHARDS 4
                ${computes})
endif()
file(GLOB ramcore_sim_main CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/sim/main*.cc)
if(ramcore_sim_main)
  add_executable(simulator ${ramcore_sim_main})
  target_include_directories(simulator PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(simulator PRIVATE ramcore_warnings ramcore_simulator)
  target_compile_options(simulator PRIVATE ${RAMCORE_DRIVER_FLAGS})
  ramcore_use_pch(simulator program)
  add_test(NAME sim_time_limit_test COMMAND ${CMAKE_SOURCE_DIR}/tests/sim/time_limit_test.py)
  set_tests_properties(sim_time_limit_test PROPERTIES LABELS sim TIMEOUT 300
    ENVIRONMENT "RAMCORE_SIMULATOR=$<TARGET_FILE:simulator>")
endif()

# Long runs over a store without network. RAMCORE_SOAK_S says how long (tools/test sets it).
file(GLOB ramcore_soak CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/soak/*.cc ${CMAKE_SOURCE_DIR}/tests/soak/support/*.cc)
if(ramcore_soak)
  ramcore_gtest(soak_test soak SOURCES ${ramcore_soak} LIBRARIES ramcore_master ramcore_accounting ramcore_test_support TIMEOUT 900 SERIAL COMPUTES)
endif()

# What takes longest begins first, so that it does not run alone at the end. (A test that was run in this folder before counts
# with the seconds that it took.)
set(ramcore_cost 1000)
foreach(test unit_log_test unit_coordinator_test unit_store_test unit_master_test sim_test_4 sim_test_3 sim_test_2 sim_test_1)
  if(TEST ${test})
    math(EXPR ramcore_cost "${ramcore_cost} + 1")
    set_tests_properties(${test} PROPERTIES COST ${ramcore_cost})
  endif()
endforeach()

# Clusters of threads in one process (threads_*_test.cc, also under ThreadSanitizer), and of real processes: C++ tests and
# scripts, which find the tools in RAMCORE_BIN_DIR.
file(GLOB ramcore_cluster CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cluster/*.cc)
set(ramcore_cluster_threads ${ramcore_cluster})
list(FILTER ramcore_cluster_threads INCLUDE REGEX "/threads_[^/]*$")
list(FILTER ramcore_cluster EXCLUDE REGEX "/threads_[^/]*$")
if(ramcore_cluster_threads)
  ramcore_gtest(cluster_threads_test cluster_threads SOURCES ${ramcore_cluster_threads}
                LIBRARIES ${ramcore_layer_libraries} ramcore_accounting ramcore_test_support TIMEOUT 900)
endif()
if(ramcore_cluster)
  ramcore_gtest(cluster_test cluster SOURCES ${ramcore_cluster}
                LIBRARIES ${ramcore_layer_libraries} ramcore_test_support TIMEOUT 900)
  # Where the programs lie is part of this test alone: a path of the build in all of them would be a miss of the compiler
  # cache in every other folder.
  target_compile_definitions(cluster_test PRIVATE RAMCORE_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
  add_dependencies(cluster_test tools)
endif()
# The load of tests that are scripts, where none of the tools has it.
add_executable(cluster_churn ${CMAKE_SOURCE_DIR}/tests/cluster/churn/main.cc)
target_link_libraries(cluster_churn PRIVATE ramcore_warnings ramcore_tool_cli ramcore_client)
target_compile_options(cluster_churn PRIVATE ${RAMCORE_DRIVER_FLAGS})
ramcore_use_pch(cluster_churn program)
add_dependencies(all_tests cluster_churn)
file(GLOB ramcore_cluster_scripts CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/tests/cluster/*_test.sh ${CMAKE_SOURCE_DIR}/tests/cluster/*_test.py)
foreach(script IN LISTS ramcore_cluster_scripts)
  get_filename_component(name ${script} NAME_WE)
  add_test(NAME cluster_${name} COMMAND ${script})
  # What fills memory and storage, or mostly waits, takes too long under a sanitizer for every change. Two cannot run there.
  set(label cluster)
  if(name MATCHES "^(full|addresses|bad_disk|coordinator_disk|process_limits|rcnic|recovery_memory|silent_servers)_")
    set(label cluster_full)
  endif()
  # What mostly waits, and measures no more than that nobody waits for ever, shares the machine with another one of these.
  # The others are about how long something takes.
  set(serial FALSE)
  if(name MATCHES "^(health|move_under_load)_")
    set(serial TRUE)
  endif()
  set_tests_properties(cluster_${name} PROPERTIES LABELS ${label} TIMEOUT 900 RUN_SERIAL ${serial}
    ENVIRONMENT "RAMCORE_BIN_DIR=${CMAKE_BINARY_DIR}/bin;RAMCORE_SOURCE_DIR=${CMAKE_SOURCE_DIR};RAMCORE_SANITIZE=${RAMCORE_SANITIZE}")
endforeach()

# The judge of durability: a process of its own that sees a cluster through the public library alone. tests/durability/run
# starts it with clusters of real processes; its judgement itself is tested on planted histories.
file(GLOB ramcore_durability CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/durability/*.cc)
if(ramcore_durability)
  ramcore_sources_together(ramcore_durability durability_oracle)
  add_executable(durability_oracle ${ramcore_durability})
  target_include_directories(durability_oracle PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR})
  target_link_libraries(durability_oracle PRIVATE ramcore_warnings ramcore_tool_cli ramcore_tool_json ramcore_client
                        PkgConfig::XXHASH)
  target_compile_options(durability_oracle PRIVATE ${RAMCORE_DRIVER_FLAGS})
  ramcore_use_pch(durability_oracle program)
  add_dependencies(all_tests durability_oracle)
  if(NOT RAMCORE_SANITIZE MATCHES "thread")
    add_dependencies(unit_tests durability_oracle)
    add_test(NAME durability_planted COMMAND ${CMAKE_SOURCE_DIR}/tests/durability/planted_test.py)
    set_tests_properties(durability_planted PROPERTIES LABELS unit TIMEOUT 120
      ENVIRONMENT "RAMCORE_DURABILITY_ORACLE=$<TARGET_FILE:durability_oracle>")
  endif()
endif()

# Decoders under libFuzzer. control_fuzz gets the names of all control-plane messages from the .proto files (their runtime
# is lite: it has no descriptors to ask).
if(RAMCORE_FUZZ)
  set(ramcore_fuzz_messages "")
  foreach(package control state)
    set(proto ${CMAKE_SOURCE_DIR}/src/wire/${package}.proto)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${proto})
    file(STRINGS ${proto} declarations REGEX "^ *message +[A-Za-z]")
    foreach(declaration IN LISTS declarations)
      string(REGEX REPLACE "^ *message +([A-Za-z0-9]+).*" "\\1" message "${declaration}")
      string(APPEND ramcore_fuzz_messages " X(${package}::${message})")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/fuzz_messages.h @ONLY
       CONTENT "#define RAMCORE_FUZZ_MESSAGES(X)@ramcore_fuzz_messages@\n")

  file(GLOB ramcore_fuzz CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzz.cc)
  if(NOT RAMCORE_VERBS)
    list(FILTER ramcore_fuzz EXCLUDE REGEX "/verbs_[^/]*$")
  endif()
  add_custom_target(fuzz_targets)
  foreach(source IN LISTS ramcore_fuzz)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
    target_link_libraries(${name} PRIVATE ramcore_warnings ramcore_simulator)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    ramcore_use_pch(${name} fuzz)
    add_dependencies(fuzz_targets ${name})
  endforeach()
  # The only decoder that belongs to a tool.
  target_sources(import_lines_fuzz PRIVATE ${CMAKE_SOURCE_DIR}/tools/rc/ndjson.cc)
  target_link_libraries(import_lines_fuzz PRIVATE ramcore_tool_json)
endif()

# Scripts that compare the documents with the tools.
file(GLOB ramcore_docs_scripts CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/tests/docs/*_test.sh ${CMAKE_SOURCE_DIR}/tests/docs/*_test.py)
foreach(script IN LISTS ramcore_docs_scripts)
  get_filename_component(name ${script} NAME_WE)
  add_test(NAME docs_${name} COMMAND ${script})
  set_tests_properties(docs_${name} PROPERTIES LABELS docs TIMEOUT 120
    ENVIRONMENT "RAMCORE_BIN_DIR=${CMAKE_BINARY_DIR}/bin;RAMCORE_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
endforeach()

# The shape of the sources.
add_test(NAME tidy COMMAND ${CMAKE_SOURCE_DIR}/tests/tidy/tidy)
add_test(NAME tidy_self_test COMMAND ${CMAKE_SOURCE_DIR}/tests/tidy/tidy_test.py)
set_tests_properties(tidy tidy_self_test PROPERTIES LABELS tidy TIMEOUT 120)

# Models of protocols: every rule that is left out has to be found.
file(GLOB ramcore_models CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/models/*_model.py)
foreach(script IN LISTS ramcore_models)
  get_filename_component(name ${script} NAME_WE)
  add_test(NAME models_${name} COMMAND ${script})
  set_tests_properties(models_${name} PROPERTIES LABELS models TIMEOUT 600)
endforeach()

# Who reads what disks hold by the document of formats alone, on files with planted damage.
file(GLOB ramcore_frames CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/frames/*_test.py)
foreach(script IN LISTS ramcore_frames)
  get_filename_component(name ${script} NAME_WE)
  add_test(NAME frames_${name} COMMAND ${script})
  set_tests_properties(frames_${name} PROPERTIES LABELS frames TIMEOUT 120)
endforeach()

# Benchmarks.
file(GLOB ramcore_bench CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/bench/*_bench.cc)
if(NOT RAMCORE_DPDK)
  list(FILTER ramcore_bench EXCLUDE REGEX "/dpdk_bench\\.cc$")
endif()
if(NOT RAMCORE_VERBS)
  list(FILTER ramcore_bench EXCLUDE REGEX "/verbs_bench\\.cc$")
endif()
add_custom_target(benches)
foreach(source IN LISTS ramcore_bench)
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "_bench$" "" name ${name})
  add_executable(bench_${name} ${source})
  target_include_directories(bench_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(bench_${name} PRIVATE ramcore_warnings ${ramcore_layer_libraries} benchmark::benchmark)
  target_compile_options(bench_${name} PRIVATE ${RAMCORE_DRIVER_FLAGS})
  ramcore_use_pch(bench_${name} program)
  add_dependencies(benches bench_${name})
endforeach()
target_link_libraries(bench_move_load PRIVATE ramcore_tool_support)  # sessions, as tools have them
if(TARGET bench_dpdk)
  target_link_libraries(bench_dpdk PRIVATE ramcore_transport_deps)  # the peer is DPDK itself
endif()

if(EXISTS ${CMAKE_SOURCE_DIR}/tests/link/CMakeLists.txt)
  add_subdirectory(tests/link)
endif()
