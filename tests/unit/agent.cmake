# Tests of cupti_agent's own code; those of the whole library in processes are in target.cmake.
add_executable(agent_cfg ${CMAKE_CURRENT_SOURCE_DIR}/workloads/agent_cfg.c)
target_link_libraries(agent_cfg PRIVATE ptbpf_flags ptbpf_plan)

unit_test(agent_values "${CMAKE_CURRENT_SOURCE_DIR}/unit/test_agent_values.c;${CMAKE_SOURCE_DIR}/cupti_agent/values.c"
  test_arg_arena)

# The library as it is built, in a process with a mock libtorch: never with sanitizers, it is not built with them.
add_library(mock_torch SHARED ${CMAKE_CURRENT_SOURCE_DIR}/mock_torch/mock_torch.c)
target_link_libraries(mock_torch PRIVATE ptbpf_warnings)
target_compile_options(mock_torch PRIVATE -fvisibility=hidden)
set_target_properties(mock_torch PROPERTIES OUTPUT_NAME torch_cpu_mock)
foreach(name agent_ops agent_open agent_life)
  unit_test(${name} "${CMAKE_CURRENT_SOURCE_DIR}/unit/test_${name}.c;${CMAKE_CURRENT_SOURCE_DIR}/unit/agent_host.c"
    test_arg_arena dl pthread)
  add_dependencies(test_${name} ptbpf_agent mock_torch agent_dump)
  target_compile_definitions(test_${name} PRIVATE AGENT="$<TARGET_FILE:ptbpf_agent>"
    MOCK_TORCH="$<TARGET_FILE:mock_torch>" AGENT_DUMP="$<TARGET_FILE:agent_dump>")
endforeach()

add_library(agent_haste SHARED ${CMAKE_CURRENT_SOURCE_DIR}/workloads/agent_haste.c)
target_link_libraries(agent_haste PRIVATE ptbpf_warnings)

# The library is not built with sanitizers: once is enough.
if(PTBPF_SANITIZE)
  set_tests_properties(unit_agent_ops unit_agent_open unit_agent_life PROPERTIES DISABLED TRUE)
endif()
pytest_test(unit_agent_symbols unit tests/unit/test_agent_symbols.py)
