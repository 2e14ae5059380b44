/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * seccomp filters as user/inject reads them: random programs against what the kernel does with them, what is not known
 * against everything that it may be, and filters that let an injection through or not, installed in a child.
 */
#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject/inject_priv.h"
#include "inject/seccomp.h"
#include "random.h"
#include "suite.h"

#ifdef __SANITIZE_ADDRESS__
#define ROUNDS 300
#else
#define ROUNDS 2500
#endif
#define CALLS 8
#define FUZZ_NR 0x2abc /* no system call */
#define MAX_LEN 64

#define LD_ARG(n_)                                                                                 \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args) + 8 * (n_))
#define LD_NR BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define LD_IP BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer))
#define IF(nr_, ret_) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(nr_), 0, 1), RET(ret_)
#define RET(ret_) BPF_STMT(BPF_RET | BPF_K, (ret_))
#define ALLOW SECCOMP_RET_ALLOW
#define ERRNO(e_) (SECCOMP_RET_ERRNO | (e_))
#define PROG(insns_) ((struct seccomp_prog){ insns_, sizeof(insns_) / sizeof((insns_)[0]) })

static uint32_t rnd(uint32_t below)
{
	return (uint32_t)(next_random() >> 32) % below;
}

static uint32_t rnd_word(void)
{
	uint32_t w = rnd(UINT32_MAX);

	return rnd(2) ? w : w & 7;
}

/* ---- random programs ---- */

static const uint16_t plain[] = {
	BPF_LD | BPF_W | BPF_ABS,
	BPF_LD | BPF_W | BPF_ABS,
	BPF_LD | BPF_W | BPF_LEN,
	BPF_LDX | BPF_W | BPF_LEN,
	BPF_LD | BPF_IMM,
	BPF_LDX | BPF_IMM,
	BPF_LD | BPF_MEM,
	BPF_LDX | BPF_MEM,
	BPF_ST,
	BPF_STX,
	BPF_MISC | BPF_TAX,
	BPF_MISC | BPF_TXA,
	BPF_ALU | BPF_NEG,
};
static const uint16_t alu_ops[] = { BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_AND,
				    BPF_OR,  BPF_XOR, BPF_LSH, BPF_RSH };
static const uint16_t jump_ops[] = { BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JSET };

#define ONE_OF(a_) ((a_)[rnd(sizeof(a_) / sizeof((a_)[0]))])

static uint32_t rnd_data_offset(void)
{
	uint32_t at = 4 * rnd(14);

	return at < 8 ? at : at + 8; /* not the instruction pointer */
}

/* One instruction with `rest` behind it. */
static struct sock_filter rnd_insn(uint32_t rest)
{
	struct sock_filter in = { 0 };
	uint32_t room = rest < 9 ? rest : 9;

	switch (rnd(4)) {
	case 0:
		in.code = (uint16_t)(BPF_JMP | ONE_OF(jump_ops) | (rnd(2) ? BPF_X : BPF_K));
		in.jt = (uint8_t)rnd(room);
		in.jf = (uint8_t)rnd(room);
		in.k = rnd_word();
		break;
	case 1:
		in.code = (uint16_t)(BPF_ALU | ONE_OF(alu_ops) | (rnd(2) ? BPF_X : BPF_K));
		in.k = rnd_word() | (BPF_OP(in.code) == BPF_DIV);
		if (BPF_OP(in.code) == BPF_LSH || BPF_OP(in.code) == BPF_RSH)
			in.k %= 32;
		break;
	case 2:
		if (!rnd(8)) {
			in.code = BPF_JMP | BPF_JA;
			in.k = rnd(room);
			break;
		}
		/* fallthrough */
	default:
		in.code = ONE_OF(plain);
		in.k = rnd_word();
		if (BPF_CLASS(in.code) == BPF_ST || BPF_CLASS(in.code) == BPF_STX ||
		    BPF_MODE(in.code) == BPF_MEM)
			in.k %= BPF_MEMWORDS;
		else if (BPF_MODE(in.code) == BPF_ABS)
			in.k = rnd_data_offset();
		break;
	}
	return in;
}

/* Lets other calls through; to this one its answer is an error, of 12 bits of what it has calculated. */
static uint32_t rnd_prog(struct sock_filter *p)
{
	static const uint32_t shifts[] = { 0, 12, 20 };
	uint32_t n = 0, body = 4 + rnd(MAX_LEN - 32);

	p[n++] = (struct sock_filter)LD_NR;
	p[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUZZ_NR, 1, 0);
	p[n++] = (struct sock_filter)RET(ALLOW);
	for (uint32_t i = 0; i < BPF_MEMWORDS && rnd(8); i++)
		p[n++] = (struct sock_filter)BPF_STMT(rnd(2) ? BPF_ST : BPF_STX, i);
	for (uint32_t i = 0; i < body; i++)
		p[n++] = rnd_insn(body - i);
	if (rnd(2))
		p[n - 1 - rnd(3)] = (struct sock_filter)RET(ERRNO(rnd(4096)));
	p[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, shifts[rnd(3)]);
	p[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xfff);
	p[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO);
	p[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
	return n;
}

static struct seccomp_call rnd_call(void)
{
	struct seccomp_call c = { .data = { .nr = FUZZ_NR, .arch = AUDIT_ARCH_X86_64 },
				  .known = SECCOMP_KNOWN_ALL };

	for (uint32_t i = 0; i < 6; i++)
		c.data.args[i] = (uint64_t)rnd_word() << 32 | rnd_word();
	return c;
}

/* ---- a child with filters ---- */

struct shared {
	int32_t installed; /* 0 or negative errno */
	uint32_t done;
	int64_t result[CALLS];
	struct seccomp_call calls[CALLS];
};

static struct shared *share(void)
{
	return mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		    -1, 0);
}

static int install(const struct seccomp_prog *prog)
{
	struct sock_fprog fp = { (uint16_t)prog->len, (struct sock_filter *)(uintptr_t)prog->insns };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
			       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fp) ?
		       -errno :
		       0;
}

/* By hand: libc would take small negative results for errors. */
static int64_t raw_call(const struct seccomp_data *d)
{
	register uint64_t r10 __asm__("r10") = d->args[3];
	register uint64_t r8 __asm__("r8") = d->args[4];
	register uint64_t r9 __asm__("r9") = d->args[5];
	int64_t ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"((long)d->nr), "D"(d->args[0]), "S"(d->args[1]), "d"(d->args[2]),
			   "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

/* How the child ended, after it has made the calls under the filter. */
static int ask_kernel(const struct seccomp_prog *prog, struct shared *sh)
{
	pid_t pid;
	int st;

	sh->done = 0;
	pid = fork();
	if (!pid) {
		sh->installed = install(prog);
		for (; !sh->installed && sh->done < CALLS; sh->done++)
			sh->result[sh->done] = raw_call(&sh->calls[sh->done].data);
		_exit(0);
	}
	CU_ASSERT_FATAL(waitpid(pid, &st, 0) == pid);
	return st;
}

static bool same_answer(const struct seccomp_answers *a, const struct shared *sh, uint32_t i, int status)
{
	if (a->cnt != 1 || a->any)
		return false;
	if (a->ret[0] == SECCOMP_RET_KILL_THREAD)
		return i == sh->done && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
	return i < sh->done && (a->ret[0] & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO &&
	       sh->result[i] == -(int64_t)(a->ret[0] & SECCOMP_RET_DATA);
}

TEST("random programs, as the kernel runs them")
{
	struct seccomp_scratch *scratch = seccomp_scratch__new();
	struct shared *sh = share();
	struct sock_filter insns[MAX_LEN + 8];
	struct seccomp_prog prog = { .insns = insns };
	struct seccomp_answers got;
	uint32_t round, i, run = 0, refused = 0, ended = 0;
	bool same = true;
	int st;

	CU_ASSERT_FATAL(scratch && sh != MAP_FAILED);
	for (round = 0; round < ROUNDS && same; round++) {
		prog.len = rnd_prog(insns);
		CU_ASSERT_EQUAL_FATAL(seccomp_eval__check(&prog), 0);
		for (i = 0; i < CALLS; i++)
			sh->calls[i] = rnd_call();
		st = ask_kernel(&prog, sh);
		if (sh->installed) { /* memory is read before it is written: the kernel does not want that */
			CU_ASSERT_EQUAL(sh->installed, -EINVAL);
			refused++;
			continue;
		}
		for (i = 0; i < CALLS && i <= sh->done && same; i++) {
			seccomp_eval__run(scratch, &prog, &sh->calls[i], &got);
			same = same_answer(&got, sh, i, st);
		}
		run++;
		ended += sh->done < CALLS;
	}
	if (!same)
		printf("\nround %u, call %u: %u answers, the first %#x; the kernel: %ld, status %#x\n",
		       round, i, got.cnt, got.ret[0], (long)sh->result[i - 1], (unsigned int)st);
	CU_ASSERT(same);
	CU_ASSERT(run > ROUNDS / 4 && refused > 0 && ended > 0);
	seccomp_scratch__free(scratch);
	munmap(sh, sizeof(*sh));
}

/* Unknown words may have any value: the answer for each value is among the answers for an unknown one. */
TEST("what is not known may be anything")
{
	struct seccomp_scratch *scratch = seccomp_scratch__new();
	struct sock_filter insns[MAX_LEN + 8];
	struct seccomp_prog prog = { .insns = insns };
	struct seccomp_answers may, one;
	struct seccomp_call call, full;
	uint32_t k, narrow = 0;
	bool covered = true;

	for (uint32_t round = 0; round < 20000; round++) {
		prog.len = rnd_prog(insns);
		call = rnd_call();
		call.known = (rnd(0x10000) | rnd(0x10000)) | SECCOMP_KNOWN_NR;
		seccomp_eval__run(scratch, &prog, &call, &may);
		narrow += may.cnt == 1 && !may.any;
		for (uint32_t i = 0; i < 8; i++) {
			full = rnd_call();
			for (k = 0; k < SECCOMP_WORDS; k++)
				if (call.known >> k & 1)
					memcpy((uint32_t *)&full.data + k, (uint32_t *)&call.data + k, 4);
			seccomp_eval__run(scratch, &prog, &full, &one);
			CU_ASSERT_FATAL(one.cnt == 1 && !one.any);
			for (k = 0; k < may.cnt && may.ret[k] != one.ret[0];)
				k++;
			covered &= may.any || k < may.cnt;
		}
	}
	CU_ASSERT(covered);
	CU_ASSERT(narrow > 1000 && narrow < 19000);
	seccomp_scratch__free(scratch);
}

/* ---- hostile programs ---- */

TEST("programs that are none")
{
	static const struct sock_filter open_end[] = { LD_NR };
	static const struct sock_filter far[] = { BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0), RET(0) };
	static const struct sock_filter back[] = { BPF_JUMP(BPF_JMP | BPF_JA, 0xffffffffu, 0, 0),
						   RET(0) };
	static const struct sock_filter outside[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), RET(0) };
	static const struct sock_filter odd[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), RET(0) };
	static const struct sock_filter mod[] = { BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 2), RET(0) };
	static const struct sock_filter div0[] = { BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), RET(0) };
	static const struct sock_filter mem[] = { BPF_STMT(BPF_ST, 16), RET(0) };
	static const struct seccomp_prog bad[] = {
		{ open_end, 0 }, { open_end, 1 }, { open_end, SECCOMP_PROG_MAX + 1 },
		{ far, 2 },      { back, 2 },     { outside, 2 },
		{ odd, 2 },      { mod, 2 },      { div0, 2 },
		{ mem, 2 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(seccomp_eval__check(&bad[i]), -EINVAL);
	CU_ASSERT_EQUAL(seccomp_eval__check(&(struct seccomp_prog){ far + 1, 1 }), 0);
}

/* Bytes of any kind: what passes can be run, and what the kernel takes passes. */
TEST("hostile programs")
{
	struct seccomp_scratch *scratch = seccomp_scratch__new();
	struct shared *sh = share();
	struct sock_filter insns[MAX_LEN + 8];
	struct seccomp_prog prog = { .insns = insns };
	struct seccomp_answers out;
	struct seccomp_call call;
	uint32_t passed = 0, differ = 0;

	for (uint32_t round = 0; round < 200000; round++) {
		prog.len = rnd_prog(insns);
		for (uint32_t i = rnd(3) + 1; i > 0; i--)
			((uint8_t *)insns)[rnd(prog.len * 8)] = (uint8_t)rnd(256);
		if (rnd(2))
			prog.len = 1 + rnd(prog.len);
		if (round % 400 == 0) {
			memset(sh->calls, 0, sizeof(sh->calls));
			sh->calls[0].data.nr = FUZZ_NR;
			ask_kernel(&prog, sh);
			differ += !sh->installed && seccomp_eval__check(&prog);
		}
		if (seccomp_eval__check(&prog))
			continue;
		passed++;
		call = rnd_call();
		call.known = rnd(0x10000);
		seccomp_eval__run(scratch, &prog, &call, &out);
		CU_ASSERT(out.cnt <= SECCOMP_ANSWERS_MAX && (out.cnt || out.any));
	}
	CU_ASSERT(passed > 10000 && passed < 190000);
	CU_ASSERT_EQUAL(differ, 0);
	seccomp_scratch__free(scratch);
	munmap(sh, sizeof(*sh));
}

TEST("the stricter of two answers")
{
	struct seccomp_answers a = { { ALLOW, ERRNO(1) }, 2, false },
			       b = { { ERRNO(2), SECCOMP_RET_KILL_PROCESS }, 2, false };
	struct seccomp_answers c;

	seccomp_eval__both(&a, &b, &c);
	CU_ASSERT(c.cnt == 3 && c.ret[0] == ERRNO(2) && c.ret[1] == SECCOMP_RET_KILL_PROCESS &&
		  c.ret[2] == ERRNO(1));
	a.cnt = b.cnt = 1;
	b.ret[0] = SECCOMP_RET_LOG;
	seccomp_eval__both(&a, &b, &a);
	CU_ASSERT(a.cnt == 1 && a.ret[0] == SECCOMP_RET_LOG && !a.any);
	b.any = true;
	seccomp_eval__both(&a, &b, &a);
	CU_ASSERT(a.any);
}

/* ---- may it be loaded? ---- */

static char why[192];

static int judge(const struct seccomp_prog *progs, uint32_t cnt, bool rseq)
{

	why[0] = '\0';
	return seccomp_check__progs(progs, cnt, rseq, why, sizeof(why));
}

static int judge_one(uint32_t nr, uint32_t ret, bool rseq)
{
	struct sock_filter f[] = { LD_NR, IF(nr, ret), RET(ALLOW) };

	return judge(&PROG(f), 1, rseq);
}

TEST("single calls that are forbidden")
{
	static const uint32_t fatal[] = { SECCOMP_RET_KILL_PROCESS,
					  SECCOMP_RET_KILL_THREAD,
					  SECCOMP_RET_TRAP,
					  SECCOMP_RET_TRACE,
					  SECCOMP_RET_USER_NOTIF,
					  ERRNO(0),
					  0x12340000 };
	static const uint32_t needed[] = {
		SYS_openat,         SYS_brk,    SYS_mmap,           SYS_mprotect,
		SYS_munmap,         SYS_clone,  SYS_futex,          SYS_rt_sigreturn,
		SYS_rt_sigprocmask, SYS_gettid, SYS_clock_nanosleep
	};
	static const uint32_t spare[] = { SYS_membarrier, SYS_set_robust_list, SYS_getrandom,
					  SYS_prctl, SYS_ioctl };

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		CU_ASSERT_EQUAL(judge_one(needed[i], ERRNO(EPERM), true), -EPERM);
		CU_ASSERT(strstr(why, "not permitted") != NULL);
		for (size_t k = 0; k < sizeof(fatal) / sizeof(fatal[0]); k++)
			CU_ASSERT_EQUAL(judge_one(needed[i], fatal[k], true), -EPERM);
		CU_ASSERT_EQUAL(judge_one(needed[i], SECCOMP_RET_LOG, true), 0);
	}
	for (size_t i = 0; i < sizeof(spare) / sizeof(spare[0]); i++) {
		CU_ASSERT_EQUAL(judge_one(spare[i], ERRNO(EPERM), true), 0);
		for (size_t k = 0; k < sizeof(fatal) / sizeof(fatal[0]); k++)
			CU_ASSERT_EQUAL(judge_one(spare[i], fatal[k], true), -EPERM);
	}
	CU_ASSERT_EQUAL(judge_one(SYS_clone3, ERRNO(ENOSYS), true), 0);
	CU_ASSERT_EQUAL(judge_one(SYS_clone3, ERRNO(EPERM), true), -EPERM);
	CU_ASSERT(strstr(why, "clone3") != NULL);
	CU_ASSERT_EQUAL(judge_one(SYS_rseq, ERRNO(EPERM), false), 0);
	CU_ASSERT_EQUAL(judge_one(SYS_rseq, ERRNO(EPERM), true), -EPERM);
	CU_ASSERT_EQUAL(judge_one(SYS_kexec_load, SECCOMP_RET_KILL_PROCESS, true), 0); /* who would? */
}

TEST("arguments that are forbidden")
{
	static const struct sock_filter namespaces[] = {
		/* as container runtimes have it */
		LD_NR,        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 5),
		LD_ARG(0),    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x7e020000),
		IF(0, ALLOW), RET(ERRNO(EPERM)),
		RET(ALLOW),
	};
	static const struct sock_filter no_exec[] = {
		LD_NR,
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
		LD_ARG(2),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
		RET(SECCOMP_RET_KILL_PROCESS),
		RET(ALLOW),
	};
	static const struct sock_filter shared_only[] = {
		/* for a call that the agent does not make */
		LD_NR,
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
		LD_ARG(3),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 0, 1),
		RET(ERRNO(EACCES)),
		RET(ALLOW),
	};
	static const struct sock_filter by_address[] = {
		LD_NR,      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 0, 3),
		LD_ARG(0),  IF(4096, SECCOMP_RET_KILL_PROCESS),
		RET(ALLOW),
	};
	static const struct sock_filter by_place[] = { LD_IP, IF(4096, SECCOMP_RET_KILL_PROCESS),
						       RET(ALLOW) };
	static const struct sock_filter by_place_alike[] = { LD_IP, IF(4096, SECCOMP_RET_LOG),
							     RET(ALLOW) };
	static const struct sock_filter from_place[] = { LD_IP, BPF_STMT(BPF_RET | BPF_A, 0) };

	CU_ASSERT_EQUAL(judge(&PROG(namespaces), 1, true), 0);
	CU_ASSERT_EQUAL(judge(&PROG(no_exec), 1, true), -EPERM);
	CU_ASSERT(strstr(why, "mmap") && strstr(why, "kill the program"));
	CU_ASSERT_EQUAL(judge(&PROG(shared_only), 1, true), 0);
	CU_ASSERT_EQUAL(judge(&PROG(by_address), 1, true), -EPERM);
	CU_ASSERT(strstr(why, "munmap") != NULL);
	CU_ASSERT_EQUAL(judge(&PROG(by_place), 1, true), -EPERM);
	CU_ASSERT_EQUAL(judge(&PROG(by_place_alike), 1, true), 0);
	CU_ASSERT_EQUAL(judge(&PROG(from_place), 1, true), -EPERM);
	CU_ASSERT(strstr(why, "not known in advance") != NULL);
}

TEST("several filters")
{
	static const struct sock_filter all[] = { RET(ALLOW) };
	static const struct sock_filter ask[] = { LD_NR, IF(SYS_membarrier, SECCOMP_RET_USER_NOTIF),
						  RET(ALLOW) };
	static const struct sock_filter fail[] = { LD_NR, IF(SYS_membarrier, ERRNO(EPERM)), RET(ALLOW) };
	static const struct sock_filter broken[] = { LD_NR };
	struct seccomp_prog progs[] = { PROG(all), PROG(ask), PROG(fail) };

	CU_ASSERT_EQUAL(judge(progs, 1, true), 0);
	CU_ASSERT_EQUAL(judge(progs, 2, true), -EPERM);
	CU_ASSERT(strstr(why, "another process") != NULL);
	CU_ASSERT_EQUAL(judge(progs, 3, true), 0); /* an error comes before that */
	progs[0] = PROG(broken);
	CU_ASSERT_EQUAL(judge(progs, 3, true), -EPERM);
	CU_ASSERT(strstr(why, "cannot be evaluated") != NULL);
}

/* ---- read from a thread ---- */

static int judge_child(const struct seccomp_prog *progs, uint32_t cnt)
{
	struct thread_status status;
	int fds[2], st, err;
	uint32_t i;
	pid_t pid;
	char c = 'x';

	CU_ASSERT_FATAL(!pipe(fds));
	pid = fork();
	if (!pid) {
		for (i = 0; i < cnt; i++)
			if (install(&progs[i]))
				_exit(1);
		i = write(fds[1], &c, 1) != 1;
		for (;;)
			pause();
	}
	CU_ASSERT_EQUAL_FATAL(read(fds[0], &c, 1), 1);
	CU_ASSERT(!thread_status__read(pid, 0, &status) && status.filters == cnt &&
		  status.seccomp == (cnt ? 2 : 0));
	CU_ASSERT_FATAL(!ptrace(PTRACE_SEIZE, pid, NULL, NULL) &&
			!ptrace(PTRACE_INTERRUPT, pid, NULL, NULL));
	CU_ASSERT_FATAL(waitpid(pid, &st, __WALL) == pid && WIFSTOPPED(st));
	why[0] = '\0';
	err = seccomp_check__thread(pid, true, why, sizeof(why));
	kill(pid, SIGKILL);
	while (waitpid(pid, &st, 0) == pid && !WIFSIGNALED(st))
		;
	close(fds[0]);
	close(fds[1]);
	return err;
}

TEST("filters of a thread")
{
	static const struct sock_filter spare[] = { LD_NR, IF(SYS_clone3, ERRNO(ENOSYS)),
						    IF(SYS_membarrier, ERRNO(EPERM)), RET(ALLOW) };
	static const struct sock_filter needed[] = { LD_NR, IF(SYS_gettid, SECCOMP_RET_TRAP),
						     RET(ALLOW) };
	struct seccomp_prog progs[] = { PROG(spare), PROG(needed), PROG(spare) };

	CU_ASSERT(judge_child(progs, 0) < 0); /* has none: not called then */
	CU_ASSERT(strstr(why, "cannot be read") != NULL);
	CU_ASSERT_EQUAL(judge_child(progs, 1), 0);
	CU_ASSERT_EQUAL(judge_child(progs, 2), -EPERM);
	CU_ASSERT(strstr(why, "gettid") && strstr(why, "SIGSYS"));
	CU_ASSERT_EQUAL(judge_child(progs, 3), -EPERM);
}

SUITE("seccomp")
