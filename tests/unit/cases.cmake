# Captures written as text, commands, and what these print: tests/cases.
set(C ${CMAKE_SOURCE_DIR}/tests/cases)
set(fields ${CMAKE_BINARY_DIR}/embed/cases/fields.inc)
set(wire ${CMAKE_SOURCE_DIR}/bpf/ptb_event.h ${CMAKE_SOURCE_DIR}/bpf/ptb_gpu.h)
add_custom_command(OUTPUT ${fields} DEPENDS ${C}/fields.py ${wire} VERBATIM
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/embed/cases
  COMMAND sh -c "${PTBPF_PYTHON3} \"$0\" \"$@\" >${fields}" ${C}/fields.py ${wire})
add_executable(capture_text ${C}/capture_text.c ${C}/args_text.c ${CMAKE_CURRENT_SOURCE_DIR}/unit/value_words.c ${fields})
target_include_directories(capture_text PRIVATE ${CMAKE_BINARY_DIR}/embed ${C} ${CMAKE_CURRENT_SOURCE_DIR}/unit)
target_link_libraries(capture_text PRIVATE ptbpf_flags ptbpf_capture)
python_test(unit_cases plain ${C}/run.py)

# What fuzz_capture mutates.
set(SEED_CAPTURE ${CMAKE_BINARY_DIR}/tests/seed/a.ptb)
add_custom_command(OUTPUT ${SEED_CAPTURE} DEPENDS capture_text ${C}/run.py ${C}/seed.def ${C}/seed/every_kind.case VERBATIM
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/tests/seed
  COMMAND ${CMAKE_COMMAND} -E env PTBPF=$<TARGET_FILE:ptbpf> ${PTBPF_PYTHON3} ${C}/run.py --make ${CMAKE_BINARY_DIR}/tests/seed seed/every_kind)
add_custom_target(seed_capture DEPENDS ${SEED_CAPTURE})
