/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * USDT sites without a tracer's headers: one nop, and a note that tells its address, its semaphore and where
 * its arguments are (the ELF notes "stapsdt" of SystemTap's sys/sdt.h). x86-64.
 */
#ifndef USDT_H
#define USDT_H

#include "ptb_agent.h"

/* One for each site, raised and lowered by the kernel for the tracers on it. */
extern volatile __u16 ptbpf_semaphores[PTB_AGENT_SITE_CNT] __attribute__((visibility("hidden")));

#define USDT_STR_(x) #x
#define USDT_STR(x) USDT_STR_(x)
#define USDT_NR(site) USDT_NR_##site
#define USDT_NR_CHUNK 0
#define USDT_NR_OPS 1
#define USDT_NR_INPUTS 2
#define USDT_NR_OUTPUTS 3
#define USDT_NR_GPU 4
#define USDT_NR_SYNC 5

#define USDT_SITE(site, name, args)                                                       \
	"990: nop\n"                                                                      \
	".pushsection .note.stapsdt,\"?\",\"note\"\n"                                     \
	".balign 4\n"                                                                     \
	".4byte 992f-991f, 994f-993f, 3\n"                                                \
	"991: .asciz \"stapsdt\"\n"                                                       \
	"992: .balign 4\n"                                                                \
	"993: .8byte 990b, _.stapsdt.base, ptbpf_semaphores + 2 * " USDT_STR(USDT_NR(site)) "\n" \
	".asciz \"" PTB_AGENT_PROVIDER "\"\n"                                             \
	".asciz \"" name "\"\n"                                                           \
	".asciz \"" args "\"\n"                                                           \
	"994: .balign 4\n"                                                                \
	".popsection\n"                                                                   \
	".ifndef _.stapsdt.base\n"                                                        \
	".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"           \
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                                  \
	"_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n"                             \
	".popsection\n"                                                                   \
	".endif\n"

#endif /* USDT_H */
