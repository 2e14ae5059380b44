# user/ranks is tested in tests/cases/ranks. A capture as of another machine, for captures of real processes.
add_executable(shift_capture ${CMAKE_CURRENT_SOURCE_DIR}/unit/shift_capture.c)
target_link_libraries(shift_capture PRIVATE ptbpf_flags ptbpf_ranks)
