# Tests of user/cli.
set(U "${CMAKE_CURRENT_SOURCE_DIR}/unit")
set(CLI "${CMAKE_SOURCE_DIR}/user/cli")
unit_test(top_draw "${U}/test_top_draw.c" ptbpf_report)
target_sources(test_top_draw PRIVATE "${CLI}/top_draw.c" "${CLI}/top_table.c" "${CLI}/top_keys.c")
