# Tests of user/python; tests/e2e/test_python.py needs python_tool.
add_executable(python_tool ${CMAKE_CURRENT_SOURCE_DIR}/unit/python_tool.c)
target_link_libraries(python_tool PRIVATE ptbpf_flags ptbpf_python)
add_executable(stack_tool ${CMAKE_CURRENT_SOURCE_DIR}/unit/stack_tool.c)
target_link_libraries(stack_tool PRIVATE ptbpf_flags ptbpf_python ptbpf_probe)
add_dependencies(stack_tool py_point)
unit_test(python ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_python.c ptbpf_python)
unit_test(py_walk ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_py_walk.c test_arg_arena ptbpf_python)
target_compile_options(test_py_walk PRIVATE -fno-strict-aliasing) # as kernel code is compiled
