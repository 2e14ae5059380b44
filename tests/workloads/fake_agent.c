/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See fake_agent.h. Built twice: with probes on one-byte and on five-byte no-operations (FAKE_NOP). */
#include "fake_agent.h"

#include "ptb_agent.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT struct ptb_agent_ctl ptbpf_agent_ctl = {
	.magic = { 'P', 'T', 'B', 'A', 'G', 'E', 'N', 'T' },
	.abi = PTB_AGENT_ABI,
	.size = sizeof(struct ptb_agent_ctl),
	.state = PTB_AGENT_ALIVE,
};

EXPORT struct ptb_agent_open ptbpf_agent_open = {
	.size = sizeof(struct ptb_agent_open),
	.tls = -64,
};

#define X(name, nr, text, what)                                                                    \
	static volatile uint16_t semaphore_##name __attribute__((section(".probes"), used));
PTB_AGENT_SITES(X)
#undef X

/* As systemtap's sys/sdt.h has it: the note's address is not loaded, the base shows later moves. */
/* clang-format off */
#define NOTE(TEXT, SEMAPHORE)                                                                      \
	"990:	" FAKE_NOP "\n"                                                                      \
	".pushsection .note.stapsdt, \"\", @note\n"                                                \
	".balign 4\n"                                                                              \
	".4byte 992f - 991f, 994f - 993f, 3\n"                                                     \
	"991:	.asciz \"stapsdt\"\n"                                                                \
	"992:	.balign 4\n"                                                                         \
	"993:	.8byte 990b, _.stapsdt.base, " SEMAPHORE "\n"                                        \
	".asciz \"" PTB_AGENT_PROVIDER "\"\n"                                                      \
	".asciz \"" TEXT "\"\n"                                                                    \
	".asciz \"8@%%rdi 8@%%rsi\"\n"                                                               \
	"994:	.balign 4\n"                                                                         \
	".popsection\n"
/* clang-format on */

__asm__(".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
	".weak _.stapsdt.base\n"
	".hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n"
	".size _.stapsdt.base, 1\n"
	".popsection\n");

EXPORT __attribute__((noinline)) void fake_agent__send(const void *chunk, size_t len)
{
	__asm__ volatile(NOTE("chunk", "semaphore_CHUNK") : : "D"(chunk), "S"(len) : "memory");
}

void requests(void);
__attribute__((noinline, used)) void requests(void)
{
	__asm__ volatile(NOTE("ops", "semaphore_OPS") : : : "memory");
	__asm__ volatile(NOTE("inputs", "semaphore_INPUTS") : : : "memory");
	__asm__ volatile(NOTE("outputs", "semaphore_OUTPUTS") : : : "memory");
	__asm__ volatile(NOTE("gpu", "semaphore_GPU") : : : "memory");
	__asm__ volatile(NOTE("sync", "semaphore_SYNC") : : : "memory");
	__asm__ volatile(NOTE("graphs", "semaphore_GRAPHS") : : : "memory");
	__asm__ volatile(NOTE("stacks", "semaphore_STACKS") : : : "memory");
	__asm__ volatile(NOTE("open", "semaphore_OPEN") : : : "memory");
	__asm__ volatile(NOTE("edges", "semaphore_EDGES") : : : "memory");
}

EXPORT uint32_t fake_agent__semaphores(void)
{
	uint32_t bits = 0;

#define X(name, nr, text, what) bits |= (semaphore_##name > 0 ? 1u : 0u) << nr;
	PTB_AGENT_SITES(X)
#undef X
	return bits;
}
