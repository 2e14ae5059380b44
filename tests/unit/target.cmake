# Tests of user/target.
set(T ${CMAKE_CURRENT_SOURCE_DIR}/unit)
unit_test(elf_file "${T}/test_elf_file.c;${T}/torch_env.c" ptbpf_target)
unit_test(proc_maps ${T}/test_proc_maps.c ptbpf_target)
