/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory calls of a libcudart, each with one difficulty, in assembly. They are never executed. <name>_enter and
 * <name>_exit mark the instructions that must be probed; what has no mark must not be.
 */
#define FUNC(name, code)                                                                           \
	__asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ",@function\n" #name           \
		":\n.cfi_startproc\n" code "\n.cfi_endproc\n.size " #name ",.-" #name "\n")
#define LOCAL(name, code)                                                                          \
	__asm__(".text\n.p2align 4\n.type " #name ",@function\n" #name ":\n.cfi_startproc\n" code  \
		"\n.cfi_endproc\n.size " #name ",.-" #name "\n")
#define MARK(name) ".globl " #name "\n" #name ": "

LOCAL(state, "mov $1,%eax; ret");
LOCAL(prepare, "xor %eax,%eax; ret");
LOCAL(driver, "movq $0x1000,(%rsi); xor %eax,%eax; ret");
LOCAL(note, "ret");

/* as libcudart's: a tool may be called; the work is done in a local function, whose error is stored */
LOCAL(do_malloc,
      "push %rbx; push %r12; push %r13; test %rdi,%rdi; je 3f; mov %rdi,%r12; mov %rsi,%r13;"
      "call prepare; mov %eax,%ebx; test %eax,%eax; jne 2f; mov %r12,%rsi; mov %r13,%rdi; call driver;"
      "mov %eax,%ebx; test %eax,%eax;" MARK(
	      cudaMalloc_exit) "jne 2f;"
			       "1: mov %ebx,%eax; pop %r13; pop %r12; pop %rbx; ret;"
			       "3: mov $1,%ebx; 2: mov %ebx,%edi; call note; jmp 1b");
FUNC(cudaMalloc,
     MARK(cudaMalloc_enter) "push %rbp; mov %rsp,%rbp; push %r13; mov %rsi,%r13; push %r12; mov %rdi,%r12;"
			    "sub $64,%rsp; call state; test %eax,%eax; je 1f;"
			    "mov %r12,-0x40(%rbp); lea -0x40(%rbp),%rdi; call *8(%rax);"
			    "mov %r13,%rsi; mov %r12,%rdi; call do_malloc; mov %eax,%r13d; lea -0x40(%rbp),%rdi; call *16(%rdi); mov %r13d,%eax;"
			    "2: add $64,%rsp; pop %r12; pop %r13; pop %rbp; ret;"
			    "1: mov %r13,%rsi; mov %r12,%rdi; call do_malloc; jmp 2b");

/* the end is in the function itself */
FUNC(cudaFree, MARK(cudaFree_enter) "push %rbx; mov %rdi,%rbx; call driver; test %eax,%eax;" MARK(
		       cudaFree_exit) "je 1f;"
				      "mov $1,%edi; call note; 1: pop %rbx; ret");

/* the result is stored behind the last jump, as in libcuda */
FUNC(cudaMallocHost,
     MARK(cudaMallocHost_enter) "push %rbx; mov %rdi,%rbx; sub $16,%rsp; lea 8(%rsp),%rdi; call driver;"
				"test %eax,%eax; je 1f; movq $0,8(%rsp); 1: mov 8(%rsp),%rcx; mov %rcx,(%rbx); add $16,%rsp; pop %rbx; ret");

/* two functions may do the work */
LOCAL(alloc_one, "push %rbx; call driver; test %eax,%eax; je 1f; nop; 1: pop %rbx; ret");
LOCAL(alloc_two, "push %rbx; call driver; test %eax,%eax; jne 1f; nop; 1: pop %rbx; ret");
FUNC(cudaHostAlloc, "test %rdx,%rdx;" MARK(cudaHostAlloc_enter) "je 1f; jmp alloc_one; 1: jmp alloc_two");

/* nothing but a jump */
LOCAL(do_free, "push %rbx; call driver; test %eax,%eax;" MARK(
		       cudaFreeHost_exit) "jne 1f; xor %ebx,%ebx; 1: pop %rbx; ret");
FUNC(cudaFreeHost, MARK(cudaFreeHost_enter) "jmp do_free");

/* the work is tried twice: its first end is not that of the call */
LOCAL(do_register, "push %rbx; call driver; test %eax,%eax; jne 1f; xor %ebx,%ebx; 1: pop %rbx; ret");
FUNC(cudaHostRegister,
     MARK(cudaHostRegister_enter) "push %rbx; push %r12; mov %rdi,%rbx; mov %rsi,%r12; call do_register; test %eax,%eax; je 1f;"
				  "mov %rbx,%rdi; mov %r12,%rsi; call do_register; 1: pop %r12; pop %rbx; ret");

/* an argument is gone before the first instruction that can be probed */
FUNC(cudaHostUnregister, "mov $1,%edi; push %rbx; call driver; pop %rbx; ret");

/* without optimisation: all arguments are in memory, every call may get them */
FUNC(cudaMallocManaged,
     MARK(cudaMallocManaged_enter) "push %rbp; mov %rsp,%rbp; sub $32,%rsp; mov %rdi,-8(%rbp); mov %rsi,-16(%rbp);"
				   "mov -16(%rbp),%rdi; call prepare; test %eax,%eax; jne 1f; call prepare; mov -8(%rbp),%rdx; mov %rax,(%rdx);"
				   "cmpq $0,-16(%rbp);" MARK(cudaMallocManaged_exit) "je 1f; mov $2,%eax; 1: leave; ret");

/* two names of one function */
FUNC(cudaMallocAsync,
     MARK(cudaMallocAsync_enter) "push %rbx; mov %rdi,%rbx; mov %rsi,%rdi; call prepare; mov %rax,(%rbx); test %rax,%rax;" MARK(
	     cudaMallocAsync_exit) "jne 1f; mov $2,%ebx; 1: mov %ebx,%eax; pop %rbx; ret");
__asm__(".globl cudaMallocAsync_ptsz\n.type cudaMallocAsync_ptsz,@function\n.set cudaMallocAsync_ptsz,cudaMallocAsync\n");

/* the pointer goes into memory through a vector register: the second call may get it, too */
FUNC(cudaMallocFromPoolAsync,
     MARK(cudaMallocFromPoolAsync_enter) "push %rbx; sub $32,%rsp; movq %rdi,%xmm0; movups %xmm0,(%rsp); call driver; test %eax,%eax; je 1f;"
					 "mov %rsp,%rbx; mov %rbx,%rdi; xor %esi,%esi; call prepare; 1: add $32,%rsp; pop %rbx; ret");

/* through a table that may change */
FUNC(cudaFreeAsync,
     "cmpl $7,where(%rip);" MARK(cudaFreeAsync_enter) "je 1f; jmp *table(%rip); 1: mov $4,%eax; ret");
/* the same for a thread's own stream has another address */
FUNC(cudaFreeAsync_ptsz, "cmpl $8,where(%rip); je 1f; jmp *table(%rip); 1: mov $4,%eax; ret");
__asm__(".data\n.p2align 3\nwhere: .long 1\n.p2align 3\ntable: .quad 0\n.text\n");
