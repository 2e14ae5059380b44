/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The reports of a libc10, with the code shapes of several builds. They are never executed. <program>_site marks the
 * instruction that must be probed.
 */
#define FUNC(name, code)                                                                           \
	__asm__(".text\n.p2align 4\n.globl " name "\n.type " name ",@function\n" name              \
		":\n.cfi_startproc\n" code "\n.cfi_endproc\n.size " name ",.-" name "\n")
#define MARK(name) ".globl " #name "\n" #name ": "

/* the stack pointer has moved, the arguments have not */
FUNC("_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm",
     "endbr64; sub $0x28,%rsp; mov %rdi,8(%rsp); xor %edi,%edi; test %rdx,%rdx;" MARK(
	     MEM_NEW_site) "je 1f; nop; 1: add $0x28,%rsp; ret");
/* the block is in another register by then */
FUNC("_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv",
     "mov %rsi,%rax; xor %esi,%esi; push %rbx; pop %rbx; ret");
FUNC("_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm",
     "endbr64;" MARK(MEM_CPU_OOM_site) "push %rbx; pop %rbx; ret");
/* before the totals: void reportMemoryUsageToProfiler(void* ptr, int64_t alloc_size, Device device) */
FUNC("_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE", "push %rbx; pop %rbx; ret");
