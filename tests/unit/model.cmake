# Tests of user/capture, user/steps and user/model. test_builder: argument payloads.
add_library(test_builder STATIC ${CMAKE_CURRENT_SOURCE_DIR}/unit/value_words.c)
target_include_directories(test_builder PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/unit)
target_link_libraries(test_builder PUBLIC ptbpf_model PkgConfig::CUNIT)

foreach(name capture capture_damage block_hold tensor_ids)
  unit_test(${name} ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_${name}.c test_builder)
endforeach()

pytest_test(unit_random_sums unit tests/unit/test_random_sums.py)
unit_test(step_count ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_step_count.c ptbpf_steps)
unit_test(op_schema "${CMAKE_CURRENT_SOURCE_DIR}/unit/test_op_schema.c;${CMAKE_CURRENT_SOURCE_DIR}/unit/value_words.c" ptbpf_model)

# Sums by name against torch's own code: tests/torch/same_gpu_rows.py.
add_executable(gpu_rows ${CMAKE_CURRENT_SOURCE_DIR}/torch/gpu_rows.c)
target_link_libraries(gpu_rows PRIVATE ptbpf_flags ptbpf_model)

# Captures that are made to exhaust their reader: every command ends in time, within its memory, and reports what it left out.
pytest_test(unit_capture_hostile unit tests/unit/test_capture_hostile.py)
pytest_test(unit_read_cancel unit tests/unit/test_read_cancel.py)
