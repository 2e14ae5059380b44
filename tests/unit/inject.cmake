# Tests of user/inject; tests/e2e/test_inject.py needs inject_tool.
add_executable(inject_tool ${CMAKE_CURRENT_SOURCE_DIR}/unit/inject_tool.c)
target_link_libraries(inject_tool PRIVATE ptbpf_inject)
unit_test(inject ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_inject.c ptbpf_inject)
target_compile_definitions(test_inject PRIVATE INJECT_LIB="$<TARGET_FILE:inject_lib>"
  STATIC_PROGRAM="$<TARGET_FILE:static_program>")
add_dependencies(test_inject inject_lib static_program)
unit_test(seccomp ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_seccomp.c ptbpf_inject)
