# Tests of user/inject.
add_executable(inject_tool ${CMAKE_CURRENT_SOURCE_DIR}/unit/inject_tool.c)
target_link_libraries(inject_tool PRIVATE ptbpf_inject)
