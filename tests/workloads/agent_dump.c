/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Stands in for a tracer where eBPF is not to be had: a library that, inside the agent's own process, raises
 * its semaphores and lets its chunk site call us, who append each chunk to a file. For tools/gpu_check.sh and
 * tests: it makes the agent's code writable for a moment, which ptbpf never does.
 *
 * The agent's threads have all signals blocked, so no trap will do. The site must be a no-operation of five bytes,
 * which becomes a call, or a short one with nothing but `ret` and padding behind it, which become a jump. What it
 * calls uses general registers only and its own system calls.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ptb_agent.h"

#define EXPORT __attribute__((visibility("default")))
#define PAGE 4096UL

EXPORT int agent_dump_begin(const char *path, unsigned int requests);
EXPORT int agent_dump_state(void);
EXPORT int agent_dump_end(int limit_ms);
EXPORT const char *agent_dump_why(void);

struct sites {
	char path[4096];
	uint64_t bias, text_begin, text_end;
	uint64_t site[PTB_AGENT_SITE_CNT], semaphore[PTB_AGENT_SITE_CNT];
	uint64_t ctl;
};

static struct sites agent;
static char why[256];
static int file = -1;
static unsigned int raised;
static uint64_t failed;
static uint8_t *near_page, old_code[5];

static int refuse(int err, const char *text)
{
	snprintf(why, sizeof(why), "%s", text);
	return err;
}

/* ---- what the site calls ---- */

void agent_dump_chunk(const void *chunk, size_t len);
void agent_dump_entry(void);

/* Called with the agent's registers saved; nothing here may touch vector registers. */
__attribute__((target("general-regs-only"), used)) void agent_dump_chunk(const void *chunk, size_t len)
{
	long ret, nr = SYS_write;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"((long)file), "S"(chunk), "d"(len)
			 : "rcx", "r11", "memory");
	if (ret != (long)len)
		__atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
}

__asm__(".text\n"
	".hidden agent_dump_entry\n"
	".globl agent_dump_entry\n"
	".type agent_dump_entry, @function\n"
	"agent_dump_entry:\n"
	"	pushfq\n"
	"	push %rax\n	push %rcx\n	push %rdx\n	push %rsi\n	push %rdi\n"
	"	push %r8\n	push %r9\n	push %r10\n	push %r11\n	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	and $-16, %rsp\n"
	"	cld\n"
	"	call agent_dump_chunk@PLT\n"
	"	mov %rbp, %rsp\n"
	"	pop %rbp\n	pop %r11\n	pop %r10\n	pop %r9\n	pop %r8\n"
	"	pop %rdi\n	pop %rsi\n	pop %rdx\n	pop %rcx\n	pop %rax\n"
	"	popfq\n"
	"	ret\n"
	".size agent_dump_entry, . - agent_dump_entry\n");

/* ---- where the agent is ---- */

static int on_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *base = strrchr(info->dlpi_name, '/');

	(void)size;
	(void)arg;
	if (!base || strcmp(base + 1, PTB_AGENT_FILE))
		return 0;
	snprintf(agent.path, sizeof(agent.path), "%s", info->dlpi_name);
	agent.bias = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			agent.text_begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			agent.text_end = agent.text_begin + info->dlpi_phdr[i].p_memsz;
		}
	return 1;
}

static void read_note(const uint8_t *desc, size_t size)
{
	static const char *const names[] = {
#define X(name, nr, text, what) [nr] = text,
		PTB_AGENT_SITES(X)
#undef X
	};
	uint64_t words[3];
	const char *provider = (const char *)desc + 24, *name;

	if (size < 26)
		return;
	memcpy(words, desc, sizeof(words));
	name = provider + strlen(provider) + 1;
	if (strcmp(provider, PTB_AGENT_PROVIDER))
		return;
	for (size_t i = 0; i < PTB_AGENT_SITE_CNT; i++)
		if (!strcmp(name, names[i])) {
			agent.site[i] = agent.bias + words[0];
			agent.semaphore[i] = agent.bias + words[2];
		}
}

static void read_notes(const uint8_t *at, const uint8_t *end)
{
	while (at + sizeof(Elf64_Nhdr) <= end) {
		Elf64_Nhdr n;

		memcpy(&n, at, sizeof(n));
		at += sizeof(n) + ((n.n_namesz + 3UL) & ~3UL);
		if (at + n.n_descsz > end)
			return;
		read_note(at, n.n_descsz);
		at += (n.n_descsz + 3UL) & ~3UL;
	}
}

static void read_symbols(const uint8_t *elf, const Elf64_Shdr *sh, const Elf64_Shdr *strings)
{
	const Elf64_Sym *sym = (const Elf64_Sym *)(const void *)(elf + sh->sh_offset);
	size_t cnt = sh->sh_size / sizeof(*sym);

	for (size_t i = 0; i < cnt; i++)
		if (!strcmp((const char *)elf + strings->sh_offset + sym[i].st_name, PTB_AGENT_CTL_SYMBOL))
			agent.ctl = agent.bias + sym[i].st_value;
}

/* The library's own file is trusted: it is ours. */
static int read_elf(void)
{
	int fd = open(agent.path, O_RDONLY | O_CLOEXEC);
	const Elf64_Shdr *sh;
	const Elf64_Ehdr *eh;
	struct stat st;
	uint8_t *elf;

	if (fd < 0 || fstat(fd, &st))
		return refuse(-ENOENT, "the agent's file cannot be read");
	elf = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (elf == MAP_FAILED)
		return refuse(-ENOMEM, "the agent's file cannot be mapped");
	eh = (const void *)elf;
	sh = (const void *)(elf + eh->e_shoff);
	for (size_t i = 0; i < eh->e_shnum; i++) {
		const char *name = (const char *)elf + sh[eh->e_shstrndx].sh_offset + sh[i].sh_name;

		if (sh[i].sh_type == SHT_NOTE && !strcmp(name, ".note.stapsdt"))
			read_notes(elf + sh[i].sh_offset, elf + sh[i].sh_offset + sh[i].sh_size);
		else if (sh[i].sh_type == SHT_DYNSYM)
			read_symbols(elf, &sh[i], &sh[sh[i].sh_link]);
	}
	munmap(elf, (size_t)st.st_size);
	return agent.ctl && agent.site[PTB_AGENT_SITE_CHUNK] ?
		       0 :
		       refuse(-EPROTO, "the agent's file has no sites");
}

/* ---- the site ---- */

/* A page that a call from the site reaches, which goes on to agent_dump_entry(). */
static int make_near_page(uint64_t site)
{
	static const uint8_t jump[] = { 0xff, 0x25, 0, 0, 0, 0 }; /* jmp *0(%rip) */
	uint64_t entry = (uint64_t)(uintptr_t)&agent_dump_entry, d;
	int up;

	for (d = PAGE * 16, up = 0; d < 1UL << 30 && !near_page; d += up ? PAGE * 64 : 0, up = !up) {
		void *want = (void *)(uintptr_t)((up ? site + d : site - d) & ~(PAGE - 1));
		void *got = mmap(want, PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (got == want)
			near_page = got;
		else if (got != MAP_FAILED)
			munmap(got, PAGE);
	}
	if (!near_page)
		return refuse(-ENOMEM, "no room near the agent's code");
	memcpy(near_page, jump, sizeof(jump));
	memcpy(near_page + sizeof(jump), &entry, sizeof(entry));
	return mprotect(near_page, PAGE, PROT_READ | PROT_EXEC) ?
		       refuse(-errno, "no code can be made here") :
		       0;
}

/* The site is not executed while its semaphore is lowered. */
static int write_site(const uint8_t *bytes)
{
	uint8_t *site = (uint8_t *)(uintptr_t)agent.site[PTB_AGENT_SITE_CHUNK];
	uint8_t *begin = (uint8_t *)((uintptr_t)site & ~(PAGE - 1));
	size_t len = (size_t)(site + 5 - begin);

	if (mprotect(begin, len, PROT_READ | PROT_WRITE | PROT_EXEC))
		return refuse(-errno, "the agent's code cannot be changed here");
	memcpy(site, bytes, 5);
	return mprotect(begin, len, PROT_READ | PROT_EXEC) ?
		       refuse(-errno, "the agent's code stays writable") :
		       0;
}

/* The instruction to write there; 0: neither of the two forms. */
static uint8_t form_of(const uint8_t *site)
{
	static const uint8_t nop5[5] = { 0x0f, 0x1f, 0x44, 0, 0 };

	if (!memcmp(site, nop5, 5))
		return 0xe8;
	if (site[0] == 0x90 && site[1] == 0xc3 &&
	    (site[2] == 0x66 || site[2] == 0x0f || site[2] == 0x90 || site[2] == 0xcc))
		return 0xe9;
	return 0;
}

static int patch_site(void)
{
	uint64_t site = agent.site[PTB_AGENT_SITE_CHUNK];
	uint8_t code[5];
	int32_t distance;
	int err;

	if (site < agent.text_begin || site + 5 > agent.text_end)
		return refuse(-EPROTO, "the agent's chunk site is not in its code");
	memcpy(old_code, (void *)(uintptr_t)site, 5);
	code[0] = form_of(old_code);
	if (!code[0])
		return refuse(-ENOTSUP, "the agent's chunk site has a form that cannot be changed");
	err = near_page ? 0 : make_near_page(site);
	if (err)
		return err;
	distance = (int32_t)((int64_t)(uintptr_t)near_page - (int64_t)(site + 5));
	memcpy(code + 1, &distance, sizeof(distance));
	return write_site(code);
}

static void raise_requests(unsigned int requests, int by)
{
	for (unsigned int i = 0; i < PTB_AGENT_SITE_CNT; i++)
		if (requests & 1u << i && agent.semaphore[i])
			__atomic_add_fetch((uint16_t *)(uintptr_t)agent.semaphore[i], by,
					   __ATOMIC_SEQ_CST);
}

static const volatile struct ptb_agent_ctl *ctl(void)
{
	return (const volatile void *)(uintptr_t)agent.ctl;
}

/* ---- the interface ---- */

/* Appends chunks to path from now on; requests: bits 1 << enum ptb_agent_site. 0 or negative errno. */
int agent_dump_begin(const char *path, unsigned int requests)
{
	int err;

	if (raised)
		return refuse(-EBUSY, "a dump is running");
	memset(&agent, 0, sizeof(agent));
	if (!dl_iterate_phdr(on_object, NULL))
		return refuse(-ENOENT, PTB_AGENT_FILE " is not loaded");
	err = read_elf();
	if (err)
		return err;
	if (ctl()->abi != PTB_AGENT_ABI || memcmp((const void *)(uintptr_t)agent.ctl, "PTBAGENT", 8))
		return refuse(-EPROTO, "the agent is not alive, or of another version");
	file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (file < 0)
		return refuse(-errno, "the file for chunks cannot be made");
	err = patch_site();
	if (err) {
		close(file);
		return err;
	}
	failed = 0;
	raised = requests | 1u << PTB_AGENT_SITE_CHUNK;
	raise_requests(raised, 1);
	return 0;
}

/* The control block's state now. */
int agent_dump_state(void)
{
	return agent.ctl ? (int)ctl()->state : 0;
}

/* Takes the requests back, waits until the agent has sent all, then stops listening. 0, -ETIMEDOUT, -EIO. */
int agent_dump_end(int limit_ms)
{
	const struct timespec nap = { .tv_nsec = 10000000 };
	int waited;

	if (!raised)
		return refuse(-EINVAL, "no dump is running");
	raise_requests(raised & ~(1u << PTB_AGENT_SITE_CHUNK), -1);
	for (waited = 0; waited < limit_ms && ctl()->state & PTB_AGENT_SENDS; waited += 10)
		nanosleep(&nap, NULL);
	waited = ctl()->state & PTB_AGENT_SENDS ? -ETIMEDOUT : 0;
	nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL); /* its last round */
	raise_requests(1u << PTB_AGENT_SITE_CHUNK, -1);
	nanosleep(&(struct timespec){ .tv_nsec = 200000000 },
		  NULL); /* threads that had read the semaphore have passed the site */
	raised = 0;
	write_site(old_code);
	close(file);
	file = -1;
	if (failed)
		return refuse(-EIO, "chunks could not be written");
	return waited ? refuse(waited, "the agent did not stop in time") : 0;
}

const char *agent_dump_why(void)
{
	return why;
}
