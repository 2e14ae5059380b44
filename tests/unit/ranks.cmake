# Tests of user/ranks, and of what is printed and exported of several ranks.
add_library(test_rank_world STATIC ${CMAKE_CURRENT_SOURCE_DIR}/unit/rank_world.c)
target_link_libraries(test_rank_world PUBLIC test_builder)
unit_test(ranks ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_ranks.c ptbpf_ranks test_rank_world)

# Captures of ranks as files; a capture as of another machine, for captures of real processes.
add_executable(fake_rank_captures ${CMAKE_CURRENT_SOURCE_DIR}/unit/fake_rank_captures.c)
target_link_libraries(fake_rank_captures PRIVATE test_rank_world)
add_executable(shift_capture ${CMAKE_CURRENT_SOURCE_DIR}/unit/shift_capture.c)
target_link_libraries(shift_capture PRIVATE ptbpf_flags ptbpf_ranks)
pytest_test(unit_rank_outputs unit tests/unit/test_rank_outputs.py)
