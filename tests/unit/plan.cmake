# Tests of user/plan.
set(P ${CMAKE_CURRENT_SOURCE_DIR}/unit)
unit_test(insn ${P}/test_insn.c ptbpf_plan)
unit_test(exit_sites "${P}/test_exit_sites.c;${P}/path_check.c" ptbpf_plan)
unit_test(op_names ${P}/test_op_names.c ptbpf_plan)
unit_test(plan_cache ${P}/test_plan_cache.c ptbpf_plan)
unit_test(lib_plan "${P}/test_lib_plan.c;${P}/path_check.c;${P}/torch_env.c" ptbpf_plan)
unit_test(tensor_layout "${P}/test_tensor_layout.c;${P}/torch_env.c" ptbpf_plan)
