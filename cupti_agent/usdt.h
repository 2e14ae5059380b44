/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * USDT sites without a tracer's headers: one nop, and a note of its address, its semaphore and
 * where its arguments are (the ELF notes "stapsdt" of SystemTap's sys/sdt.h). x86-64.
 */
#ifndef USDT_H
#define USDT_H

#include "ptb_agent.h"

/* One for each site, raised and lowered by the kernel for the tracers on it. */
extern volatile __u16 ptbpf_semaphores[PTB_AGENT_SITE_CNT] __attribute__((visibility("hidden")));

/* A statement; args: where operands that follow are to be found, as the note has it. */
/* clang-format off */
#define USDT_SITE(site, name, args, ...)                                                      \
	__asm__ volatile("990: nop\n"                                                     \
			 ".pushsection .note.stapsdt,\"?\",\"note\"\n"                    \
			 ".balign 4\n"                                                    \
			 ".4byte 992f-991f, 994f-993f, 3\n"                               \
			 "991: .asciz \"stapsdt\"\n"                                      \
			 "992: .balign 4\n"                                               \
			 "993: .8byte 990b, _.stapsdt.base, ptbpf_semaphores + %c[off]\n" \
			 ".asciz \"" PTB_AGENT_PROVIDER "\"\n"                            \
			 ".asciz \"" name "\"\n"                                          \
			 ".asciz \"" args "\"\n"                                          \
			 "994: .balign 4\n"                                               \
			 ".popsection\n"                                                  \
			 ".ifndef _.stapsdt.base\n"                                       \
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
			 ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                 \
			 "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n"            \
			 ".popsection\n"                                                  \
			 ".endif\n"                                                       \
			 :                                                                \
			 : [off] "i"(2 * PTB_AGENT_SITE_##site), ##__VA_ARGS__            \
			 : "memory")
/* clang-format on */

#endif /* USDT_H */
