# Tests of user/record.
unit_test(cost_meter ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_cost_meter.c ptbpf_record)
unit_test(recorder_args ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_recorder_args.c test_builder ptbpf_record)
unit_test(recorder_agent ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_recorder_agent.c ptbpf_record)
unit_test(recorder_limits ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_recorder_limits.c ptbpf_record)
unit_test(recorder_python ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_recorder_python.c ptbpf_record)
# tests/e2e/test_stacks.py needs stacks_tool.
add_executable(stacks_tool ${CMAKE_CURRENT_SOURCE_DIR}/unit/stacks_tool.c)
target_link_libraries(stacks_tool PRIVATE ptbpf_flags ptbpf_capture)
