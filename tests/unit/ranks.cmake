# Tests of user/ranks beside tests/cases/ranks; a capture as of another machine, for captures of real processes.
unit_test(ranks ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_ranks.c ptbpf_ranks test_builder)
add_executable(shift_capture ${CMAKE_CURRENT_SOURCE_DIR}/unit/shift_capture.c)
target_link_libraries(shift_capture PRIVATE ptbpf_flags ptbpf_ranks)
