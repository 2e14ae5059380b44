# Exporters are tested over a fake session: they are pure functions of the model's values.
set(FAKE_SESSION ${CMAKE_CURRENT_SOURCE_DIR}/unit/fake_session.c)
set(U ${CMAKE_CURRENT_SOURCE_DIR}/unit)
unit_test(out_file "${U}/test_out_file.c" ptbpf_export)
unit_test(chrome_trace "${U}/test_chrome_trace.c;${FAKE_SESSION}" ptbpf_export)
unit_test(table "${U}/test_table.c;${FAKE_SESSION}" ptbpf_export)
unit_test(loss_account "${U}/test_loss_account.c;${FAKE_SESSION}" ptbpf_export)
