/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Launches, copies and synchronisation of a libcudart, each with one difficulty, in assembly. They are never executed.
 * <name>_enter and <name>_exit mark the instructions that must be probed; what has no mark must not be.
 */
#define FUNC(name, code)                                                                           \
	__asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ",@function\n" #name           \
		":\n.cfi_startproc\n" code "\n.cfi_endproc\n.size " #name ",.-" #name "\n")
#define LOCAL(name, code)                                                                          \
	__asm__(".text\n.p2align 4\n.type " #name ",@function\n" #name ":\n.cfi_startproc\n" code  \
		"\n.cfi_endproc\n.size " #name ",.-" #name "\n")
#define MARK(name) ".globl " #name "\n" #name ": "
#define DRIVER "call *driver_table+" /* a pointer of the file, as the driver is called */

extern void free(void *);
void *driver_table[4] __attribute__((visibility("hidden")));
void *free_is_imported = (void *)&free;

LOCAL(state, "mov $1,%eax; ret");
LOCAL(note, "push %rbx; mov %rdi,%rbx; call free@PLT; pop %rbx; ret");
LOCAL(attach, "push %rbx; " DRIVER "24(%rip); pop %rbx; ret"); /* the driver, too, at the first call */

/* as libcudart's: a tool may be called before and after the local function that does the work */
LOCAL(do_launch,
      "push %rbx; call attach; test %eax,%eax; jne 2f; " DRIVER
      "0(%rip); mov %eax,%ebx; test %eax,%eax;" MARK(
	      cudaLaunchKernel_exit) "jne 2f; 1: mov %ebx,%eax; pop %rbx; ret; 2: mov %eax,%edi; call note; jmp 1b");
/* clang-format off */
#define WITH_TOOLS(name, work)                                                                     \
	FUNC(name, MARK(name##_enter) "push %rbx; mov %rdi,%rbx; call state; test %eax,%eax; je 1f;" \
		   "call *8(%rax); mov %rbx,%rdi; call " #work "; mov %eax,%ebx; call *16(%rax); mov %ebx,%eax;" \
		   "pop %rbx; ret; 1: mov %rbx,%rdi; call " #work "; pop %rbx; ret")
/* clang-format on */
WITH_TOOLS(cudaLaunchKernel, do_launch);

/* the compiler's stubs call this one; it is the same call */
FUNC(__cudaLaunchKernel, "push %rbp; mov %rsp,%rbp; pop %rbp; jmp cudaLaunchKernel");

/* works twice, and the first end would be taken for the last */
LOCAL(do_copy, "push %rbx; " DRIVER "0(%rip); test %eax,%eax; jne 1f; nop; 1: pop %rbx; ret");
FUNC(cudaMemcpy,
     MARK(cudaMemcpy_enter) "push %rbx; mov %rdi,%rbx; call do_copy; mov %rbx,%rdi; call do_copy; pop %rbx; ret");

/* two functions may do the work */
LOCAL(copy_one, "push %rbx; " DRIVER "0(%rip); test %eax,%eax; je 1f; nop; 1: pop %rbx; ret");
LOCAL(copy_two, "push %rbx; " DRIVER "8(%rip); test %eax,%eax; jne 1f; nop; 1: pop %rbx; ret");
FUNC(cudaMemcpyAsync,
     "test %rdx,%rdx;" MARK(cudaMemcpyAsync_enter) "je 1f; jmp copy_one; 1: jmp copy_two");

/* a tool is called by a function that does not come after the work on all paths */
LOCAL(call_tool, "push %rbx; call *8(%rdi); pop %rbx; ret");
LOCAL(do_peer, "push %rbx; " DRIVER "0(%rip); test %eax,%eax; jne 1f; nop; 1: pop %rbx; ret");
FUNC(cudaMemcpyPeer,
     MARK(cudaMemcpyPeer_enter) "push %rbx; call state; test %eax,%eax; je 1f; call call_tool; pop %rbx; ret;"
				"1: call do_peer; pop %rbx; ret");

/* ... and by one that does */
LOCAL(do_peer_async,
      "push %rbx; " DRIVER
      "0(%rip); test %eax,%eax;" MARK(cudaMemcpyPeerAsync_exit) "jne 1f; nop; 1: pop %rbx; ret");
FUNC(cudaMemcpyPeerAsync,
     MARK(cudaMemcpyPeerAsync_enter) "push %rbx; call state; test %eax,%eax; je 1f;"
				     "call call_tool; call do_peer_async; call call_tool; 2: pop %rbx; ret; 1: call do_peer_async; pop %rbx; ret");

/* the last of the work is in a loop: the jump back is crossed more than once */
FUNC(cudaMemset, MARK(cudaMemset_enter) "push %rbx; mov $4,%ebx; 1: " DRIVER
					"0(%rip); dec %ebx; jne 1b; pop %rbx; ret");

/* ends in the driver */
FUNC(cudaMemsetAsync,
     MARK(cudaMemsetAsync_enter) "push %rbx; mov %rdi,%rbx; call state; pop %rbx; jmp *driver_table(%rip)");

/* two calls that are one code: the end is the first one's */
LOCAL(do_sync, "push %rbx; " DRIVER "0(%rip); test %eax,%eax; jne 1f; nop; 1: pop %rbx; ret");
FUNC(cudaStreamSynchronize, "push %rbx; call do_sync; pop %rbx; ret");
FUNC(cudaEventSynchronize, "push %rbx; call do_sync; pop %rbx; ret");

/* the same call under another name: they share it */
LOCAL(do_wait,
      "push %rbx; " DRIVER
      "0(%rip); test %eax,%eax;" MARK(cudaStreamWaitEvent_exit) "jne 1f; nop; 1: pop %rbx; ret");
FUNC(cudaStreamWaitEvent, "push %rbx; call do_wait; pop %rbx; ret");
FUNC(cudaStreamWaitEvent_ptsz, "push %rbx; call do_wait; pop %rbx; ret");

/* eax is another thing by then */
FUNC(cudaEventRecord,
     MARK(cudaEventRecord_enter) "push %rbx; " DRIVER "0(%rip); mov %eax,%ebx; mov $7,%eax; test %ebx,%ebx;" MARK(
	     cudaEventRecord_exit) "jne 1f; nop; 1: mov %ebx,%eax; pop %rbx; ret");

/* what the error handling calls may call the driver */
FUNC(cudaGraphLaunch,
     MARK(cudaGraphLaunch_enter) "push %rbx; " DRIVER
				 "0(%rip); mov %eax,%ebx; test %eax,%eax; je 1f; call attach;"
				 "1: test %ebx,%ebx; " MARK(cudaGraphLaunch_exit) "je 2f; nop; 2: mov %ebx,%eax; pop %rbx; ret");

/* nothing to probe where the arguments are still there */
FUNC(cudaDeviceSynchronize,
     "mov $1,%rdi; push %rbx; " DRIVER "0(%rip); test %eax,%eax; je 1f; nop; 1: pop %rbx; ret");
