# Tests of user/probe: they trace programs of tests/workloads.
add_library(test_probe_target STATIC ${CMAKE_CURRENT_SOURCE_DIR}/unit/probe_target.c)
target_include_directories(test_probe_target PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/unit)
target_link_libraries(test_probe_target PUBLIC ptbpf_probe)

foreach(name link_guard probe_set probe_shared probe_text probe_stacks probe_harm probe_stale probe_file)
  unit_test(${name} ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_${name}.c test_probe_target)
  target_compile_definitions(test_${name} PRIVATE TARGET_CALLS="$<TARGET_FILE:target_calls>"
    TARGET_THROWS="$<TARGET_FILE:target_throws>" TARGET_MEMORY="$<TARGET_FILE:target_memory>")
  add_dependencies(test_${name} target_calls target_throws target_memory)
  target_link_libraries(test_${name} PRIVATE ptbpf_target)
  # each change of a probe waits for the kernel: not two at a time, and long on a busy machine
  set_tests_properties(unit_${name} PROPERTIES RESOURCE_LOCK uprobes)
endforeach()

target_sources(test_link_guard PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/unit/lock_holder.c)
# it keeps every fork of the machine waiting, and any ptbpf that waits aborts the file system by which it does
set_tests_properties(unit_link_guard PROPERTIES RUN_SERIAL TRUE)

foreach(name probe_args probe_callargs)
  unit_test(${name} ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_${name}.c test_probe_target test_arg_arena)
  target_compile_definitions(test_${name} PRIVATE TARGET_TENSORS="$<TARGET_FILE:target_tensors>")
  add_dependencies(test_${name} target_tensors)
  set_tests_properties(unit_${name} PROPERTIES RESOURCE_LOCK uprobes)
endforeach()

foreach(name probe_memory probe_kmem probe_kmem_rare)
  unit_test(${name} ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_${name}.c test_probe_target)
  target_compile_definitions(test_${name} PRIVATE TARGET_MEMORY="$<TARGET_FILE:target_memory>")
  add_dependencies(test_${name} target_memory)
  set_tests_properties(unit_${name} PROPERTIES RESOURCE_LOCK uprobes)
endforeach()

unit_test(probe_cuda ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_probe_cuda.c test_probe_target)
target_compile_definitions(test_probe_cuda PRIVATE TARGET_CUDA_CALLS="$<TARGET_FILE:target_cuda_calls>")
add_dependencies(test_probe_cuda target_cuda_calls)
set_tests_properties(unit_probe_cuda PROPERTIES RESOURCE_LOCK uprobes)

add_executable(bench_rings ${CMAKE_CURRENT_SOURCE_DIR}/bench/ring_bench.c)
target_link_libraries(bench_rings PRIVATE test_probe_target)
target_compile_definitions(bench_rings PRIVATE TARGET_CALLS="$<TARGET_FILE:target_calls>")
add_dependencies(bench_rings target_calls)

# The argument interpreter on the host; ptbpf_model's walk over values is the judge of its payloads.
add_library(test_arg_arena STATIC ${CMAKE_CURRENT_SOURCE_DIR}/unit/arg_arena.c
  ${CMAKE_CURRENT_SOURCE_DIR}/unit/arg_expect.c)
target_include_directories(test_arg_arena PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/unit)
target_link_libraries(test_arg_arena PUBLIC ptbpf_model PkgConfig::CUNIT)
target_compile_options(test_arg_arena PRIVATE -fno-strict-aliasing) # as kernel code is compiled
foreach(name arg_interp arg_objects)
  unit_test(${name} ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_${name}.c test_arg_arena)
endforeach()

add_executable(bench_verifier ${CMAKE_CURRENT_SOURCE_DIR}/bench/verifier_bench.c)
target_link_libraries(bench_verifier PRIVATE test_probe_target)
target_include_directories(bench_verifier SYSTEM PRIVATE ${PTBPF_SKEL_DIR}) # it counts the programs of the object
add_dependencies(bench_verifier ptbpf_skel)

target_include_directories(test_probe_text SYSTEM PRIVATE ${PTBPF_SKEL_DIR}) # it fills a map

# The agent inside a target: a library of the same sites that sends on command (tests/workloads).
add_library(test_agent_target STATIC ${CMAKE_CURRENT_SOURCE_DIR}/unit/agent_target.c)
target_link_libraries(test_agent_target PUBLIC test_probe_target ptbpf_target)
foreach(name probe_agent probe_agent_harm agent_lib)
  unit_test(${name} ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_${name}.c test_agent_target)
  target_compile_definitions(test_${name} PRIVATE TARGET_AGENT_NOP1="$<TARGET_FILE:target_agent_nop1>"
    TARGET_AGENT_NOP5="$<TARGET_FILE:target_agent_nop5>" FAKE_AGENT_LIB="$<TARGET_FILE:fake_agent_nop1>"
    AGENT_LIBS="$<TARGET_FILE:ptbpf_agent>:$<TARGET_FILE:python_name>" TARGET_CALLS="$<TARGET_FILE:target_calls>")
  add_dependencies(test_${name} target_agent_nop1 target_agent_nop5 ptbpf_agent python_name
    target_calls)
endforeach()
set_tests_properties(unit_probe_agent unit_probe_agent_harm PROPERTIES RESOURCE_LOCK uprobes)

unit_test(unwind ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_unwind.c ptbpf_probe ptbpf_code)

# The two that take a minute or more begin first, one beside the other tests of probes.
set_tests_properties(unit_probe_harm unit_probe_agent_harm PROPERTIES RESOURCE_LOCK uprobes_harm COST 100)
# links are shared only where no other process maps the file
set_tests_properties(unit_probe_shared PROPERTIES RESOURCE_LOCK "uprobes;uprobes_harm")

# What the kernel and the target suffer does not depend on how the tracer was compiled, and takes minutes: once.
if(PTBPF_SANITIZE)
  set_tests_properties(unit_probe_harm unit_probe_agent_harm PROPERTIES DISABLED TRUE)
endif()

# These depend on the kernel: tools/kernels runs them on others (label "kernel").
foreach(name link_guard probe_set probe_shared probe_text probe_stacks probe_harm probe_stale probe_args probe_callargs probe_memory probe_kmem probe_kmem_rare probe_cuda
        probe_agent probe_agent_harm unwind)
  set_property(TEST unit_${name} APPEND PROPERTY LABELS kernel)
  set_target_properties(test_${name} PROPERTIES EXCLUDE_FROM_ALL FALSE)
endforeach()
