# Compiles ptbpf.bpf.c (which includes the others) and generates its skeleton into the build tree.
find_program(CLANG NAMES clang REQUIRED)
find_program(BPFTOOL NAMES bpftool PATHS /usr/sbin /sbin REQUIRED)
set(PTBPF_SKEL_DIR ${CMAKE_BINARY_DIR}/skel)
file(MAKE_DIRECTORY ${PTBPF_SKEL_DIR})
file(GLOB PTBPF_BPF_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bpf/*.c ${CMAKE_SOURCE_DIR}/bpf/*.h)
add_custom_command(
  OUTPUT ${PTBPF_SKEL_DIR}/ptbpf.bpf.o
  COMMAND ${CLANG} -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -Wall -Wextra -Werror
          -I${CMAKE_SOURCE_DIR}/bpf -isystem /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
          -c ${CMAKE_SOURCE_DIR}/bpf/ptbpf.bpf.c -o ${PTBPF_SKEL_DIR}/ptbpf.bpf.o
  DEPENDS ${PTBPF_BPF_SOURCES}
  VERBATIM)
add_custom_command(
  OUTPUT ${PTBPF_SKEL_DIR}/ptbpf.skel.h
  COMMAND ${BPFTOOL} gen skeleton ${PTBPF_SKEL_DIR}/ptbpf.bpf.o name ptbpf_bpf
          > ${PTBPF_SKEL_DIR}/ptbpf.skel.h.tmp
  COMMAND ${CMAKE_COMMAND} -E rename ${PTBPF_SKEL_DIR}/ptbpf.skel.h.tmp ${PTBPF_SKEL_DIR}/ptbpf.skel.h
  DEPENDS ${PTBPF_SKEL_DIR}/ptbpf.bpf.o
  VERBATIM)
add_custom_target(ptbpf_skel DEPENDS ${PTBPF_SKEL_DIR}/ptbpf.skel.h)
