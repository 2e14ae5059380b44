# Exporters are tested over a fake session: they are pure functions of the model's values.
set(FAKE_SESSION ${CMAKE_CURRENT_SOURCE_DIR}/unit/fake_session.c ${CMAKE_CURRENT_SOURCE_DIR}/unit/fake_values.c)
set(U ${CMAKE_CURRENT_SOURCE_DIR}/unit)
unit_test(out_file "${U}/test_out_file.c" ptbpf_export)
unit_test(chrome_trace "${U}/test_chrome_trace.c;${FAKE_SESSION}" ptbpf_export)
unit_test(chrome_args "${U}/test_chrome_args.c;${FAKE_SESSION};${U}/value_words.c" ptbpf_export)
unit_test(et_values "${U}/test_et_values.c;${FAKE_SESSION};${U}/value_words.c" ptbpf_export)
unit_test(exec_trace "${U}/test_exec_trace.c;${FAKE_SESSION};${U}/value_words.c" ptbpf_export)
unit_test(table "${U}/test_table.c;${FAKE_SESSION}" ptbpf_report)
unit_test(chrome_memory "${U}/test_chrome_memory.c;${U}/memory_world.c;${FAKE_SESSION}" ptbpf_export)
unit_test(mem_report "${U}/test_mem_report.c;${U}/memory_world.c;${FAKE_SESSION}" ptbpf_report)
unit_test(loss_account "${U}/test_loss_account.c;${FAKE_SESSION}" ptbpf_export)

# The table against torch's own code, where a torch is at hand.
add_executable(table_rows ${CMAKE_CURRENT_SOURCE_DIR}/torch/table_rows.c)
target_link_libraries(table_rows PRIVATE ptbpf_flags ptbpf_report)
add_test(NAME torch_table_bytes COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/torch/test_table_bytes.py
  --helper $<TARGET_FILE:table_rows>)
set_tests_properties(torch_table_bytes PROPERTIES LABELS torch SKIP_RETURN_CODE 77 TIMEOUT 600)

# The validator of traces takes what the exporters write, and finds what is false.
add_executable(fake_trace ${U}/fake_trace.c ${U}/memory_world.c ${FAKE_SESSION} ${U}/value_words.c)
target_link_libraries(fake_trace PRIVATE ptbpf_flags ptbpf_report)
add_test(NAME unit_validate_trace COMMAND python3 ${U}/test_validate_trace.py --fake-trace $<TARGET_FILE:fake_trace>)
set_tests_properties(unit_validate_trace PROPERTIES LABELS unit TIMEOUT 300)

add_executable(fake_et ${U}/fake_et.c ${FAKE_SESSION} ${U}/value_words.c)
target_link_libraries(fake_et PRIVATE ptbpf_flags ptbpf_export)
add_test(NAME unit_validate_et COMMAND python3 ${U}/test_validate_et.py --fake-et $<TARGET_FILE:fake_et>)
set_tests_properties(unit_validate_et PROPERTIES LABELS unit TIMEOUT 300)

# GPUs: a made-up process with two of them; NVIDIA's calculator of occupancy where CUDA's headers are at hand.
set(GPU_WORLD "${U}/gpu_world.c;${FAKE_SESSION}")
unit_test(gpu_occupancy "${U}/test_gpu_occupancy.c" ptbpf_export)
file(GLOB cuda_includes /usr/local/cuda*/include /usr/local/cuda*/targets/*/include
  $ENV{PTBPF_ENV_DIR}/*/lib/python3*/site-packages/nvidia/*/include
  /var/tmp/ptbpf-envs/*/lib/python3*/site-packages/nvidia/*/include)
find_path(CUDA_OCCUPANCY_DIR cuda_occupancy.h PATHS ${cuda_includes})
if(CUDA_OCCUPANCY_DIR)
  target_compile_definitions(test_gpu_occupancy PRIVATE CUDA_OCCUPANCY_H)
  target_include_directories(test_gpu_occupancy SYSTEM PRIVATE ${CUDA_OCCUPANCY_DIR})
endif()
unit_test(chrome_gpu "${U}/test_chrome_gpu.c;${GPU_WORLD}" ptbpf_export)
add_executable(fake_gpu_trace ${U}/fake_gpu_trace.c ${GPU_WORLD})
target_link_libraries(fake_gpu_trace PRIVATE ptbpf_flags ptbpf_report)
add_test(NAME unit_validate_gpu COMMAND python3 ${U}/test_validate_gpu.py --fake-gpu-trace $<TARGET_FILE:fake_gpu_trace>)
set_tests_properties(unit_validate_gpu PROPERTIES LABELS unit TIMEOUT 300)
unit_test(gpu_report "${U}/test_gpu_report.c;${GPU_WORLD}" ptbpf_report)

# The same as a capture, by way of the model and the command line.
add_executable(fake_gpu_capture ${U}/fake_gpu_capture.c ${U}/gpu_world.c ${U}/fake_values.c)
target_link_libraries(fake_gpu_capture PRIVATE test_builder)
add_test(NAME unit_gpu_capture COMMAND python3 ${U}/test_gpu_capture.py --ptbpf $<TARGET_FILE:ptbpf>
  --fake-gpu-capture $<TARGET_FILE:fake_gpu_capture>)
set_tests_properties(unit_gpu_capture PROPERTIES LABELS unit TIMEOUT 300)

# Texts of a capture that attack whoever prints them.
add_executable(fake_hostile_capture ${U}/fake_hostile_capture.c)
target_link_libraries(fake_hostile_capture PRIVATE test_builder)
add_test(NAME unit_hostile_texts COMMAND python3 ${U}/test_hostile_texts.py --ptbpf $<TARGET_FILE:ptbpf>
  --fake-hostile-capture $<TARGET_FILE:fake_hostile_capture>)
set_tests_properties(unit_hostile_texts PROPERTIES LABELS unit TIMEOUT 300)

# Hundreds of falsifications in Python; the exporters' own tests run with sanitizers.
if(PTBPF_SANITIZE)
  set_tests_properties(unit_validate_trace unit_validate_et unit_validate_gpu PROPERTIES DISABLED TRUE)
endif()
