# Tests of the agent's CUPTI part against the mock libraries; its sources are compiled into them.
set(CU_AGENT ${CMAKE_SOURCE_DIR}/cupti_agent)
function(cupti_test name)
  unit_test(${name} "${CMAKE_CURRENT_SOURCE_DIR}/unit/test_${name}.c;${CMAKE_CURRENT_SOURCE_DIR}/unit/cupti_world.c;${CU_AGENT}/cupti.c;${CU_AGENT}/cupti_graphs.c;${CU_AGENT}/cupti_lib.c;${CU_AGENT}/cupti_records.c;${CU_AGENT}/libs.c"
    ptbpf_cupti pthread dl)
  target_include_directories(test_${name} PRIVATE ${CU_AGENT} ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(test_${name} PRIVATE MOCK_CUDA_DIR="$<TARGET_FILE_DIR:mock_cuda_driver>")
  add_dependencies(test_${name} mock_cuda_driver mock_cuda_runtime mock_cupti mock_cupti_new)
endfunction()

cupti_test(cupti_records)
cupti_test(cupti_neighbours)
cupti_test(cupti_graphs)

# Against the real headers and libraries, where there are any.
add_executable(cupti_slot_check ${CMAKE_CURRENT_SOURCE_DIR}/unit/cupti_slot_check.c ${CU_AGENT}/cupti_lib.c
  ${CU_AGENT}/libs.c)
target_include_directories(cupti_slot_check PRIVATE ${CU_AGENT})
target_link_libraries(cupti_slot_check PRIVATE ptbpf_warnings dl)
pytest_test(unit_cupti_layout unit tests/unit/test_cupti_layout.py)

# What ptbpf makes of CUPTI's records.
unit_test(cupti_decode ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_cupti_decode.c ptbpf_cupti)
