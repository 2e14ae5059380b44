# Tests of user/plan.
set(P ${CMAKE_CURRENT_SOURCE_DIR}/unit)
unit_test(insn ${P}/test_insn.c ptbpf_plan)
unit_test(exit_sites "${P}/test_exit_sites.c;${P}/path_check.c" ptbpf_plan)
unit_test(op_names ${P}/test_op_names.c ptbpf_plan)
unit_test(plan_cache ${P}/test_plan_cache.c ptbpf_plan)
unit_test(plan_key ${P}/test_plan_key.c ptbpf_plan)
unit_test(lib_plan "${P}/test_lib_plan.c;${P}/path_check.c;${P}/torch_env.c" ptbpf_plan)
unit_test(tensor_layout "${P}/test_tensor_layout.c;${P}/learn_layout.c;${P}/torch_env.c" ptbpf_plan)
unit_test(rf_layout "${P}/test_rf_layout.c;${P}/learn_layout.c;${P}/torch_env.c" ptbpf_plan)
unit_test(live_schema "${P}/test_live_schema.c;${P}/learn_layout.c;${P}/torch_env.c" ptbpf_plan)
unit_test(schema_text ${P}/test_schema_text.c ptbpf_plan)
unit_test(arg_prog ${P}/test_arg_prog.c ptbpf_plan)
unit_test(value_locations ${P}/test_value_locations.c ptbpf_plan)
unit_test(op_args "${P}/test_op_args.c;${P}/torch_env.c" ptbpf_plan)

# Allocators with one difficulty per function; the names are those by which libraries are recognised.
add_library(fake_alloc SHARED ${P}/fake_alloc_lib.c)
add_library(fake_cudart SHARED ${P}/fake_cudart_lib.c)
set_target_properties(fake_alloc PROPERTIES OUTPUT_NAME c10-fake)
set_target_properties(fake_cudart PROPERTIES OUTPUT_NAME cudart-fake)
unit_test(memory_sites "${P}/test_memory_sites.c;${P}/path_check.c;${P}/torch_env.c" ptbpf_plan)
add_dependencies(test_memory_sites fake_alloc fake_cudart)
target_compile_definitions(test_memory_sites PRIVATE FAKE_ALLOC_LIB="$<TARGET_FILE:fake_alloc>"
  FAKE_CUDART_LIB="$<TARGET_FILE:fake_cudart>")

add_library(fake_cuda_calls SHARED ${P}/fake_cuda_calls_lib.c)
unit_test(cuda_calls "${P}/test_cuda_calls.c;${P}/path_check.c;${P}/torch_env.c" ptbpf_plan)
add_dependencies(test_cuda_calls fake_cuda_calls mock_cuda_driver mock_cuda_runtime)
# The same, linked into a library that exports none of it.
add_library(fake_linked_cudart SHARED ${P}/fake_cuda_calls_lib.c ${P}/fake_cudart_lib.c)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/hide_all.map "{ local: *; };\n")
target_link_options(fake_linked_cudart PRIVATE -Wl,--version-script=${CMAKE_CURRENT_BINARY_DIR}/hide_all.map)
add_dependencies(test_cuda_calls fake_linked_cudart)
target_compile_definitions(test_cuda_calls PRIVATE FAKE_LINKED_LIB="$<TARGET_FILE:fake_linked_cudart>" FAKE_CUDA_CALLS_LIB="$<TARGET_FILE:fake_cuda_calls>"
  MOCK_CUDART_LIB="$<TARGET_FILE:mock_cuda_runtime>" MOCK_CUDA_LIB="$<TARGET_FILE:mock_cuda_driver>")

# The plan's schemas against torch's own: tests/torch/same_schemas.py.
add_executable(plan_schemas ${CMAKE_CURRENT_SOURCE_DIR}/torch/plan_schemas.c)
target_link_libraries(plan_schemas PRIVATE ptbpf_flags ptbpf_plan)
