# Tests of user/capture and user/model. test_builder: synthetic captures and a log of what a session
# tells, for the exporters' tests too.
add_library(test_builder STATIC ${CMAKE_CURRENT_SOURCE_DIR}/unit/capture_builder.c
  ${CMAKE_CURRENT_SOURCE_DIR}/unit/slice_log.c)
target_include_directories(test_builder PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/unit)
target_link_libraries(test_builder PUBLIC ptbpf_model)

foreach(name thread_stack scopes steps autograd_link key_averages)
  unit_test(${name} ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_${name}.c test_builder)
endforeach()
