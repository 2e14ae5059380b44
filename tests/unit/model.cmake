# Tests of user/capture and user/model. test_builder: synthetic captures and a log of what a session
# tells, for the exporters' tests too; value_words: argument payloads.
add_library(test_builder STATIC ${CMAKE_CURRENT_SOURCE_DIR}/unit/capture_builder.c ${CMAKE_CURRENT_SOURCE_DIR}/unit/seed_capture.c
  ${CMAKE_CURRENT_SOURCE_DIR}/unit/slice_log.c ${CMAKE_CURRENT_SOURCE_DIR}/unit/mem_log.c
  ${CMAKE_CURRENT_SOURCE_DIR}/unit/value_words.c ${CMAKE_CURRENT_SOURCE_DIR}/unit/gpu_log.c)
target_include_directories(test_builder PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/unit)
target_link_libraries(test_builder PUBLIC ptbpf_model)

foreach(name capture capture_damage thread_stack scopes rf_slices steps autograd_link key_averages key_averages_random values tensor_ids
        args facts memory memory_sums gpu)
  unit_test(${name} ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_${name}.c test_builder)
endforeach()

add_executable(model_bench ${CMAKE_CURRENT_SOURCE_DIR}/bench/model_bench.c)
target_link_libraries(model_bench PRIVATE test_builder)

# Sums by name against torch's own code.
add_executable(gpu_rows ${CMAKE_CURRENT_SOURCE_DIR}/torch/gpu_rows.c)
target_link_libraries(gpu_rows PRIVATE test_builder)
add_test(NAME torch_gpu_rows COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/torch/test_gpu_rows.py
  --helper $<TARGET_FILE:gpu_rows>)
set_tests_properties(torch_gpu_rows PROPERTIES LABELS torch SKIP_RETURN_CODE 77 TIMEOUT 600)

# Captures that are made to exhaust their reader: every command ends in time, within its memory, and says what it left out.
add_executable(hostile_capture ${CMAKE_CURRENT_SOURCE_DIR}/unit/hostile_capture.c
  ${CMAKE_CURRENT_SOURCE_DIR}/unit/hostile_cases.c)
target_link_libraries(hostile_capture PRIVATE test_builder)
add_test(NAME unit_capture_hostile COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_capture_hostile.py
  --ptbpf $<TARGET_FILE:ptbpf> --hostile-capture $<TARGET_FILE:hostile_capture>)
set_tests_properties(unit_capture_hostile PROPERTIES LABELS unit TIMEOUT 900 COST 70)
add_test(NAME unit_read_cancel COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_read_cancel.py
  --ptbpf $<TARGET_FILE:ptbpf> --hostile-capture $<TARGET_FILE:hostile_capture>)
set_tests_properties(unit_read_cancel PROPERTIES LABELS unit TIMEOUT 900 COST 10)
if(PTBPF_SANITIZE) # whose own memory is most of it
  set_tests_properties(unit_capture_hostile unit_read_cancel PROPERTIES DISABLED TRUE)
endif()
