# Tests of user/cli: its files are built in, because the program is no library.
set(recorder_sources ${CMAKE_SOURCE_DIR}/user/cli/recorder.c ${CMAKE_SOURCE_DIR}/user/cli/recorder_args.c
  ${CMAKE_SOURCE_DIR}/user/cli/recorder_resolve.c ${CMAKE_SOURCE_DIR}/user/cli/recorder_agent.c
  ${CMAKE_SOURCE_DIR}/user/cli/agent_clock.c ${CMAKE_SOURCE_DIR}/user/cli/agent_gpu.c
  ${CMAKE_SOURCE_DIR}/user/cli/agent_ops.c)
unit_test(recorder_args ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_recorder_args.c test_builder ptbpf_plan ptbpf_cupti)
target_sources(test_recorder_args PRIVATE ${recorder_sources})
unit_test(recorder_agent ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_recorder_agent.c test_builder ptbpf_plan ptbpf_cupti)
target_sources(test_recorder_agent PRIVATE ${recorder_sources})
unit_test(recorder_limits ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_recorder_limits.c test_builder ptbpf_plan ptbpf_cupti)
target_sources(test_recorder_limits PRIVATE ${recorder_sources})
