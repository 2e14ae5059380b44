/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finds the files that stacks point into; in the child: libdwfl, and text for each frame. See
 * code.h. */
#define LOG_DOMAIN "unwind"
#include "code/code.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <elfutils/libdwfl.h>

#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sandbox.h"
#include "target/elf.h"

#define NAME_MAX_CHARS 512 /* of a frame; longer template names are cut */

struct stack_file {
	struct mapped_file mf;
	const char *name; /* without directories; borrowed */
};

struct unwinding {
	pid_t pid;
	struct unwind_thread *threads;
	uint32_t cnt;
	struct stack_file *files;
	uint32_t file_cnt, file_cap;
	uint64_t file_bytes;
	uint64_t spent_ns; /* with files */
	/* in the child: */
	struct hashmap seen; /* address -> index in texts */
	char **texts;
	uint32_t text_cnt, text_cap;
	FILE *out;
	struct unwind_thread *thread; /* the one at hand */
	uint32_t frames;
	bool unreadable; /* what libdwfl takes for the end of a stack */
};

/* ---- in the child: what libdwfl asks for ---- */

#ifdef PTBPF_STATIC
/* In place of dlopen() (CMakeLists.txt): when the process starts, libdwfl loads libdebuginfod,
 * which would need another C library than this program's. */
void *__wrap_dlopen(const char *path, int mode);

void *__wrap_dlopen(const char *path, int mode)
{
	(void)path, (void)mode;
	return NULL;
}
#endif

static int no_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base, char **file,
		  Elf **elf)
{
	(void)mod, (void)userdata, (void)name, (void)base, (void)file, (void)elf;
	return -1;
}

static int no_debuginfo(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
			const char *file, const char *link, GElf_Word crc, char **found)
{
	(void)mod, (void)userdata, (void)name, (void)base, (void)file, (void)link, (void)crc,
		(void)found;
	return -1;
}

static const Dwfl_Callbacks file_callbacks = { .find_elf = no_elf, .find_debuginfo = no_debuginfo };

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	(void)dwfl, (void)arg, (void)thread_arg;
	return 0; /* threads are asked for by number */
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	struct unwinding *u = arg;

	(void)dwfl;
	u->thread = *thread_arg = &u->threads[tid - 1];
	return true;
}

static bool read_stack(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *out, void *arg)
{
	struct unwinding *u = arg;
	const struct unwind_thread *t = u->thread;
	uint64_t off = addr - t->at.regs[PTB_DWARF_SP];

	(void)dwfl;
	if (addr < t->at.regs[PTB_DWARF_SP] || off > t->stack_len ||
	    t->stack_len - off < sizeof(*out)) {
		u->unreadable = true;
		return false;
	}
	memcpy(out, t->stack + off, sizeof(*out));
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct unwind_thread *t = arg;
	Dwarf_Word regs[PTB_DWARF_REGS];

	for (int i = 0; i < PTB_DWARF_REGS; i++)
		regs[i] = t->at.regs[i];
	dwfl_thread_state_register_pc(thread, regs[PTB_DWARF_IP]);
	return dwfl_thread_state_registers(thread, 0, PTB_DWARF_REGS, regs);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = read_stack,
	.set_initial_registers = set_registers,
};

/* ---- in the child: text ---- */

/* Of the function that the address is in; "" if no symbol covers it. */
static void function_at(Dwfl_Module *mod, Dwarf_Addr pc, char *buf, size_t cap)
{
	GElf_Off off = 0;
	GElf_Sym sym;
	const char *name = dwfl_module_addrinfo(mod, pc, &off, &sym, NULL, NULL, NULL);

	*buf = '\0';
	if (name && off < sym.st_size)
		cxx_name__short(name, buf, cap);
}

static char *frame_text(Dwfl *dwfl, Dwarf_Addr pc)
{
	Dwfl_Module *mod = dwfl_addrmodule(dwfl, pc);
	char func[NAME_MAX_CHARS] = "";
	Dwarf_Addr bias = 0;
	const char *file;

	if (!mod)
		return xasprintf("0x%llx", (unsigned long long)pc);
	file = dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	function_at(mod, pc, func, sizeof(func));
	if (*func)
		return xasprintf("%s (%s)", func, file);
	return xasprintf("%s+0x%llx", file,
			 (unsigned long long)(dwfl_module_getelf(mod, &bias) ? pc - bias : pc));
}

/* The same, once for each address. */
static const char *frame_name(struct unwinding *u, Dwfl *dwfl, Dwarf_Addr pc)
{
	const uint64_t *at = hashmap__get(&u->seen, pc, 0);
	char *text;

	if (at)
		return u->texts[*at];
	text = frame_text(dwfl, pc);
	vec_push(u->texts, u->text_cnt, u->text_cap, text);
	hashmap__put(&u->seen, pc, 0, u->text_cnt - 1);
	return text;
}

static int put_frame(Dwfl_Frame *frame, void *arg)
{
	struct unwinding *u = arg;
	Dwfl *dwfl = dwfl_thread_dwfl(dwfl_frame_thread(frame));
	const char *name;
	bool activation;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, &activation) || u->frames == LIMIT_NATIVE_FRAMES)
		return DWARF_CB_ABORT;
	/* a return address may be the next function's */
	name = frame_name(u, dwfl, activation ? pc : pc - 1);
	if (!name)
		return DWARF_CB_ABORT;
	u->frames++;
	return fprintf(u->out, "%s\n", name) < 0 ? DWARF_CB_ABORT : DWARF_CB_OK;
}

static Dwfl *open_files(struct unwinding *u)
{
	Dwfl *dwfl = dwfl_begin(&file_callbacks);

	if (!dwfl)
		return NULL;
	dwfl_report_begin(dwfl);
	for (uint32_t i = 0; i < u->file_cnt; i++)
		if (!dwfl_report_elf(dwfl, u->files[i].name, u->files[i].name, u->files[i].mf.fd,
				     u->files[i].mf.load_bias, true))
			pr_debug("%s: %s", u->files[i].name, dwfl_errmsg(-1));
	if (dwfl_report_end(dwfl, NULL, NULL) ||
	    !dwfl_attach_state(dwfl, NULL, u->pid, &thread_callbacks, u)) {
		pr_debug("no stack is unwound: %s", dwfl_errmsg(-1));
		dwfl_end(dwfl);
		return NULL;
	}
	return dwfl;
}

/* One NUL-terminated text for each thread. */
static int unwind_all(void *arg, uint8_t **out, size_t *len)
{
	struct unwinding *u = arg;
	Dwfl *dwfl = open_files(u);
	char *text = NULL;

	if (!dwfl)
		return -ENOEXEC;
	u->out = xmemstream(&text, len);
	for (uint32_t i = 0; i < u->cnt; i++) {
		u->frames = 0;
		u->unreadable = false;
		if (u->threads[i].stack_len &&
		    (dwfl_getthread_frames(dwfl, (pid_t)i + 1, put_frame, u) || u->unreadable) &&
		    u->frames)
			fputs("...\n", u->out);
		fputc('\0', u->out);
	}
	if (fclose(u->out))
		mem__end(0);
	*out = (uint8_t *)text;
	return 0; /* the process ends: nothing is freed */
}

/* ---- in the parent ---- */

static int add_file(struct unwinding *u, const struct proc_map *map)
{
	const struct elf_question q = { .fn = elf_answer__nothing, .spent_ns = &u->spent_ns };
	struct stack_file f = { .name = proc_map__base(map) };
	int err = mapped_file__ask(u->pid, map, &q, &f.mf);

	if (err)
		return err == -ECANCELED ? err : 0; /* its frames have no names */
	vec_push(u->files, u->file_cnt, u->file_cap, f);
	u->file_bytes += f.mf.answer.id.size;
	return 0;
}

/* The executable mapping of a file that has the address, or cnt. */
static uint32_t find_map(const struct proc_maps *maps, uint64_t addr)
{
	uint32_t from = 0, to = maps->cnt; /* they are sorted */

	while (from < to) {
		uint32_t mid = from + (to - from) / 2;

		if (addr >= maps->items[mid].end)
			from = mid + 1;
		else
			to = mid;
	}
	return from < maps->cnt && addr >= maps->items[from].start && maps->items[from].exec ?
		       from :
		       maps->cnt;
}

static void mark(const struct proc_maps *maps, bool *used, uint64_t addr)
{
	uint32_t at = find_map(maps, addr);

	if (at < maps->cnt)
		used[at] = true;
}

/* Files that some word of a stack points into the code of: no others can be unwound through. */
static int find_files(struct unwinding *u, const struct proc_maps *maps)
{
	bool *used = xcalloc(maps->cnt + 1, sizeof(*used));
	int err = 0;

	for (uint32_t i = 0; i < u->cnt; i++) {
		const struct unwind_thread *t = &u->threads[i];
		uint64_t word;

		mark(maps, used, t->at.regs[PTB_DWARF_IP]);
		for (uint32_t off = 0; off + sizeof(word) <= t->stack_len; off += sizeof(word)) {
			memcpy(&word, t->stack + off, sizeof(word));
			mark(maps, used, word);
		}
	}
	for (uint32_t i = 0; i < maps->cnt; i++)
		if (used[i])
			used[maps->items[i].first] = true;
	for (uint32_t i = 0; i < maps->cnt && !err; i++)
		if (used[i] && proc_maps__is_first(maps, i))
			err = add_file(u, &maps->items[i]);
	free(used);
	return err;
}

static int take_texts(struct unwinding *u, const uint8_t *data, size_t len)
{
	const uint8_t *end;

	for (uint32_t i = 0; i < u->cnt; i++) {
		end = len ? memchr(data, '\0', len) : NULL;
		if (!end)
			return -EPROTO;
		if (end > data)
			u->threads[i].text = xstrdup((const char *)data);
		len -= (size_t)(end + 1 - data);
		data = end + 1;
	}
	return 0;
}

static int run_child(struct unwinding *u)
{
	struct sandbox_job job = {
		.what = "native stacks",
		.fn = unwind_all,
		.arg = u,
		.fd_cnt = u->file_cnt,
		.limits = { ((uint64_t)LIMIT_ELF_MIB << 20) + u->file_bytes, LIMIT_ELF_CPU_S,
			    LIMIT_ELF_WALL_MS, LIMIT_ELF_ANSWER },
	};
	int *fds = xcalloc(u->file_cnt + 1, sizeof(*fds)), err;
	uint8_t *data = NULL;
	size_t len = 0;

	for (uint32_t i = 0; i < u->file_cnt; i++)
		fds[i] = u->files[i].mf.fd;
	job.fds = fds;
	err = sandbox__run(&job, &data, &len);
	if (!err)
		err = take_texts(u, data, len);
	free(data);
	free(fds);
	return err;
}

int unwind__threads(pid_t pid, struct unwind_thread *threads, uint32_t cnt)
{
	struct unwinding u = { .pid = pid, .threads = threads, .cnt = cnt };
	struct proc_maps maps;
	int err = proc_maps__read(pid, &maps);

	if (err)
		return err;
	err = find_files(&u, &maps);
	if (!err)
		err = run_child(&u);
	for (uint32_t i = 0; i < u.file_cnt; i++)
		mapped_file__clear(&u.files[i].mf);
	free(u.files);
	proc_maps__free(&maps);
	return err;
}
