# Tests of user/export beside tests/cases.
set(U ${CMAKE_CURRENT_SOURCE_DIR}/unit)
unit_test(out_file "${U}/test_out_file.c" ptbpf_export)
unit_test(pb "${U}/test_pb.c" ptbpf_export)
pytest_test(unit_random_programs unit tests/unit/test_random_programs.py)

# The intervals of differences; all else of user/diff is in tests/cases/diff.
unit_test(diff_stats "${U}/test_diff_stats.c" ptbpf_diff)

# The table against torch's own code: tests/torch/same_table.py.
add_executable(table_rows ${CMAKE_CURRENT_SOURCE_DIR}/torch/table_rows.c)
target_link_libraries(table_rows PRIVATE ptbpf_flags ptbpf_report)

# The validators of traces take what ptbpf writes, and find what is false.
pytest_test(unit_validators unit tests/unit/test_validators.py)

# NVIDIA's calculator of occupancy if CUDA's headers are found.
unit_test(gpu_occupancy "${U}/test_gpu_occupancy.c" ptbpf_export)
execute_process(COMMAND bash -c ". tools/env.sh; printf %s \"$PTBPF_ENV_DIR\"" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
  OUTPUT_VARIABLE env_dir) # none where another user can change it
file(GLOB cuda_includes /usr/local/cuda*/include /usr/local/cuda*/targets/*/include
  ${env_dir}/*/lib/python3*/site-packages/nvidia/*/include)
find_path(CUDA_OCCUPANCY_DIR cuda_occupancy.h PATHS ${cuda_includes})
if(CUDA_OCCUPANCY_DIR)
  target_compile_definitions(test_gpu_occupancy PRIVATE CUDA_OCCUPANCY_H)
  target_include_directories(test_gpu_occupancy SYSTEM PRIVATE ${CUDA_OCCUPANCY_DIR})
endif()

# Profiles, read by their formats' rules.
pytest_test(unit_profiles unit tests/unit/test_profiles.py)

# Memory snapshots, read by torch's own code.
pytest_test(unit_memory_snapshot unit tests/unit/test_memory_snapshot.py)

# Texts of a capture that attack programs which print them.
pytest_test(unit_hostile_texts unit tests/unit/test_hostile_texts.py)
