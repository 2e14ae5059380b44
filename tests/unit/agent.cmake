# Tests of cupti_agent's own code; those of the whole library in processes are in target.cmake.
add_executable(agent_cfg ${CMAKE_CURRENT_SOURCE_DIR}/workloads/agent_cfg.c)
target_link_libraries(agent_cfg PRIVATE ptbpf_flags ptbpf_plan)

unit_test(agent_values "${CMAKE_CURRENT_SOURCE_DIR}/unit/test_agent_values.c;${CMAKE_SOURCE_DIR}/cupti_agent/values.c"
  test_arg_arena)
