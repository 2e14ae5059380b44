# Tests of user/sample.
unit_test(schedule ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_schedule.c ptbpf_sample)
unit_test(proc_select ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_proc_select.c ptbpf_sample)
unit_test(window_dir ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_window_dir.c ptbpf_sample)
unit_test(thin ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_thin.c ptbpf_sample)
unit_test(metrics ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_metrics.c ptbpf_sample)
unit_test(metrics_server ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_metrics_server.c ptbpf_sample)
unit_test(control_msg ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_control_msg.c ptbpf_sample)
unit_test(control_server ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_control_server.c ptbpf_sample)
