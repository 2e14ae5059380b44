# Tests of the memory timeline: the model's data flow and the three formats.
set(U ${CMAKE_CURRENT_SOURCE_DIR}/unit)
unit_test(op_schema "${U}/test_op_schema.c;${U}/value_words.c" ptbpf_model)
unit_test(mem_flow "${U}/test_mem_flow.c;${U}/flow_builder.c;${U}/value_words.c" ptbpf_model)
unit_test(mem_category "${U}/test_mem_category.c;${U}/flow_builder.c;${U}/value_words.c" ptbpf_model)
unit_test(mem_timeline "${U}/test_mem_timeline.c;${U}/fake_session.c;${U}/fake_values.c;${U}/value_words.c" ptbpf_export)
