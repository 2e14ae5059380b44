# Tests of user/target.
set(T ${CMAKE_CURRENT_SOURCE_DIR}/unit)
unit_test(elf_file "${T}/test_elf_file.c;${T}/torch_env.c" ptbpf_target)
unit_test(elf_child ${T}/test_elf_child.c ptbpf_target)
unit_test(proc_maps ${T}/test_proc_maps.c ptbpf_target)
unit_test(job_facts ${T}/test_job_facts.c ptbpf_target)
unit_test(proc_memory ${T}/test_proc_memory.c ptbpf_target)
unit_test(proc_read "${T}/test_proc_read.c;${T}/lock_holder.c" ptbpf_target)
set_tests_properties(unit_proc_read PROPERTIES RUN_SERIAL TRUE) # for the reason of unit_link_guard
unit_test(remote_mem ${T}/test_remote_mem.c ptbpf_target)
unit_test(live_ops "${T}/test_live_ops.c;${T}/torch_env.c" ptbpf_target)

# The smallest file that is recognised as torch, as a library and as a program.
add_library(fake_torch SHARED ${T}/fake_torch_lib.c)
add_executable(fake_server ${T}/fake_torch_lib.c)
target_link_libraries(fake_torch PRIVATE ptbpf_flags)
target_link_libraries(fake_server PRIVATE ptbpf_flags)
unit_test(torch_proc ${T}/test_torch_proc.c ptbpf_target)
add_dependencies(test_torch_proc fake_torch fake_server fake_cudart fake_linked_cudart) # the last two: plan.cmake
target_compile_definitions(test_torch_proc PRIVATE FAKE_LINKED_LIB="$<TARGET_FILE:fake_linked_cudart>" FAKE_TORCH_LIB="$<TARGET_FILE:fake_torch>"
  FAKE_CUDART_LIB="$<TARGET_FILE:fake_cudart>"
  FAKE_STATIC_PROGRAM="$<TARGET_FILE:fake_server>")

# Kernels as nvcc leaves them on the host.
add_library(fake_kernels SHARED ${T}/fake_kernels_lib.c)
unit_test(host_func "${T}/test_host_func.c;${T}/torch_env.c" ptbpf_target)
target_link_libraries(test_host_func PRIVATE fake_kernels)
unit_test(pid_hold ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_pid_hold.c ptbpf_target)
