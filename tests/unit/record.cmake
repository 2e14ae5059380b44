# Tests of user/record.
unit_test(recorder_args ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_recorder_args.c test_builder ptbpf_record)
unit_test(recorder_agent ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_recorder_agent.c test_builder ptbpf_record)
unit_test(recorder_limits ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_recorder_limits.c test_builder ptbpf_record)
