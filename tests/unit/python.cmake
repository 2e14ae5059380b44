# Tests of user/python; tests/e2e/test_python.py needs python_tool.
add_executable(python_tool ${CMAKE_CURRENT_SOURCE_DIR}/unit/python_tool.c)
target_link_libraries(python_tool PRIVATE ptbpf_flags ptbpf_python)
unit_test(python ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_python.c ptbpf_python)
