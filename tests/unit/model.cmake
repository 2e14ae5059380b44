# Tests of user/capture and user/model. test_builder: synthetic captures, for the exporters' tests too.
add_library(test_builder STATIC ${CMAKE_CURRENT_SOURCE_DIR}/unit/capture_builder.c)
target_include_directories(test_builder PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/unit)
target_link_libraries(test_builder PUBLIC ptbpf_model)
