/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ELF files, read here or in a child. */
#ifndef TARGET_ELF_H
#define TARGET_ELF_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/proc.h"

/*
 * The directory of cached plans, hashes and answers: root's alone. What is read from it decides
 * where probes are placed, so directory and files are used only if they are root's own, accessible
 * to nobody else, and no links.
 */

#define PLAN_CACHE_DIR "/var/cache/ptbpf"

/* A descriptor, the caller's to close, or negative errno (logged unless -ENOENT). path NULL:
 * PLAN_CACHE_DIR; made where it is missing. -EPERM: it is not root's alone. */
int cache_dir__open(const char *path);
#define FILE_HASH_SZ 32

/*
 * A file is named after a digest (FILE_HASH_SZ bytes) with a suffix, and ends with the hash of its
 * content: a damaged one is not used. Reads up to max bytes; *out from malloc. 0 or negative errno.
 */
int cache_dir__read(int dir, const uint8_t *digest, const char *suffix, size_t max, uint8_t **out,
		    size_t *len);
/* Writes the file under another name first, so that a reader never sees half a file, and does not
 * sync. Then deletes the oldest files until the rest fits LIMIT_PLAN_CACHE_MIB. */
void cache_dir__write(int dir, const uint8_t *digest, const char *suffix, const uint8_t *data,
		      size_t len);

/*
 * The identity and the content of an open file. The identity changes whenever the file is written
 * or replaced, or its inode changes; a write through a shared mapping may change it later. The hash
 * is of every byte. Both are those of a descriptor: a name may refer to another file by then.
 */

struct file_id { /* without padding: compared and hashed as bytes */
	uint64_t dev, ino, size;
	/* never given again; 0: not known, or the device is a disk, whose number says as much */
	uint64_t mount;
	int64_t mtime_s, mtime_ns, ctime_s, ctime_ns;
};

/* 0 or negative errno. */
int file_id__get(int fd, struct file_id *id);
bool file_id__same(const struct file_id *a, const struct file_id *b);
/*
 * Does the identity stand for this content as long as this process runs? A write now gets times
 * other than those of the file, and no other file gets the identity: the kernel gives a disk's
 * number to nothing else. The numbers of overlays, memory, FUSE and loop devices come again, with
 * whatever inode and times the next owner likes; their files are known by the mount (Linux 6.8), or
 * nothing is remembered about them.
 */
bool file_id__is_lasting(const struct file_id *id);

/*
 * SHA-256 of the first size bytes: of everything that the analysis may read. copy: memory of that
 * size (memfd_create()) which gets the bytes that are hashed; -1: none. 0; -EFBIG: beyond
 * LIMIT_ELF_FILE_MIB; -ESTALE: the file is shorter by now; -ECANCELED: a signal is pending; another
 * negative errno. A child reads it (base/sandbox.h), which does nothing else: no content of the
 * file makes the hash another one.
 */
int file_hash__get(int fd, uint64_t size, int copy, uint8_t hash[FILE_HASH_SZ]);
/* SHA256() itself has OpenSSL load its settings and its whole library. */
void bytes_hash__get(const void *data, size_t len, uint8_t hash[FILE_HASH_SZ]);

/*
 * A mapped ELF x86-64 shared object or executable: symbols, sections, program headers, relocations
 * that the analysis needs, function starts. Read-only and bounded: a truncated or hostile file
 * gives an error, never a fault (but for SIGBUS when the file is truncated while open). Knows
 * nothing of torch.
 */

struct elf_file;

int elf_file__open(const char *path, struct elf_file **out); /* 0 or negative errno, logged once */
/* The same of an open file, which stays the caller's; name: for messages. */
int elf_file__open_fd(int fd, const char *name, struct elf_file **out);
void elf_file__close(struct elf_file *ef);

/* Build-id bytes; returns the size, 0 if none. */
uint32_t elf_file__build_id(const struct elf_file *ef, uint8_t *buf, uint32_t cap);

struct elf_sym {
	const char *name; /* mangled; points into the file's map */
	uint64_t addr;    /* ELF vaddr */
	uint64_t size;
	uint8_t type; /* STT_* */
	uint8_t bind;
	bool defined;
};

/* Calls fn for every symbol of .dynsym, then of .symtab (duplicates happen). fn returns false to
 * stop. */
void elf_file__for_each_sym(const struct elf_file *ef,
			    bool (*fn)(const struct elf_sym *sym, void *arg), void *arg);

/* vaddr <-> file offset by PT_LOAD; UINT64_MAX when not mapped by the file. */
uint64_t elf_file__addr_to_off(const struct elf_file *ef, uint64_t addr);
uint64_t elf_file__off_to_addr(const struct elf_file *ef, uint64_t off);

/* Bytes at vaddr; NULL if [addr, addr+len) is not file-backed. *avail: bytes up to the segment's
 * end. */
const uint8_t *elf_file__bytes(const struct elf_file *ef, uint64_t addr, uint64_t len,
			       uint64_t *avail);

/* The i-th loaded segment's file-backed part; false when there is none. */
bool elf_file__segment(const struct elf_file *ef, uint32_t i, uint64_t *addr, uint64_t *len,
		       bool *exec);

/* Address and size of a section of this name; false: there is none. */
bool elf_file__section(const struct elf_file *ef, const char *name, uint64_t *addr, uint64_t *size);

/* Is addr in an executable segment? */
bool elf_file__is_text(const struct elf_file *ef, uint64_t addr);

/* The name that a PLT stub or GOT slot at addr resolves to (mangled), NULL if it is none. */
const char *elf_file__plt_name(const struct elf_file *ef, uint64_t addr);

/* Start and end (from .eh_frame_hdr / .eh_frame) of the function that covers addr; covers local
 * functions of stripped files and `.cold` parts as separate ranges. */
bool elf_file__func_range(const struct elf_file *ef, uint64_t addr, uint64_t *start, uint64_t *end);

/*
 * Questions about the ELF files of others. A file is parsed only in a child without privileges
 * (base/sandbox.h), one child per file: a file that takes over its child, loops, or is cut while it
 * is read, spoils the answers about itself and no others. Answers are plain data, and are as
 * hostile as the file. Private to target, inject and python.
 */

struct elf_question {
	/* Runs in the child. *out: from malloc, at most LIMIT_ELF_ANSWER bytes without pointers. 0
	 * or negative errno. */
	int (*fn)(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len);
	const void *arg; /* of fn: with it, the key under which the answer is cached */
	size_t arg_sz;
	/* sum of the time of questions that belong together; NULL: this one only */
	uint64_t *spent_ns;
};

#define ELF_EXEC_SEG_MAX 16
#define ELF_MARK_MAX 64

/* What is always answered; checked, so that no sum of these numbers overflows. */
struct elf_outline {
	struct elf_exec_seg {
		uint64_t addr, off, file_sz;
	} segs[ELF_EXEC_SEG_MAX]; /* executable segments */
	uint32_t seg_cnt;
	/* bytes that memory must hold where the file is mapped: its build-id, or its header */
	uint32_t mark_sz;
	uint64_t mark_addr; /* ELF vaddr; UINT64_MAX: they are not mapped */
	uint8_t mark[ELF_MARK_MAX];
};

struct elf_answer {
	struct file_id id; /* of the file before it was read */
	struct elf_outline outline;
	uint8_t *data; /* what fn answered */
	size_t len;
};

/*
 * name: of the file, for messages. Answers and failures are remembered where an identity is of one
 * file only (file_id__is_lasting()). 0; -ENOEXEC: not ELF x86-64, or damaged, or cut meanwhile;
 * -ETIMEDOUT, -E2BIG, -EFBIG: beyond a limit; -ECANCELED: a signal is pending; fn's own error;
 * another negative errno. Failures are logged when they happen.
 */
int elf_child__ask(int fd, const char *name, const struct elf_question *q, struct elf_answer *out);
void elf_answer__clear(struct elf_answer *a);
/*
 * From now on answers about files on disks are also kept in this directory (NULL: PLAN_CACHE_DIR)
 * and taken from there: one ptbpf after the other asks the same.
 */
void elf_child__use_cache(const char *dir);
/* This program's own build-id, of BUILD_ID_MAX bytes, so that what another build made is not used;
 * zeroes if it has none. */
const uint8_t *elf_child__tool_id(void);

/* Copies an answer of a fixed size; false: it has another one. */
bool elf_answer__get(const struct elf_answer *a, void *to, size_t sz);
/* As fn: where the outline is all that is asked for. */
int elf_answer__nothing(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len);
/* For fn: answers with a copy. */
void elf_answer__give(const void *from, size_t sz, uint8_t **out, size_t *len);

/* How to reach the very file that a process has mapped, across mount namespaces and after deletion,
 * and to ask about it. Private to target, inject, code and python. */

struct mapped_file {
	int fd; /* the open file: a name may stand for another one at any time; 0: none */
	uint64_t load_bias; /* runtime address - ELF vaddr */
	struct elf_answer answer;
};

/*
 * Asks about the file of an executable mapping. 0; -ENOEXEC: not a regular ELF file, or another
 * file is there now (logged once); -EXDEV: it is served by a process of another user, to which no
 * request is sent (logged once); -ECANCELED: a signal is pending; another negative errno, as
 * elf_child__ask(). *out needs mapped_file__clear() on success only.
 */
int mapped_file__ask(pid_t pid, const struct proc_map *map, const struct elf_question *q,
		     struct mapped_file *out);
void mapped_file__clear(struct mapped_file *mf);
/* The first bytes of a mapped file, unless a user's process serves it: the count, or negative
 * errno. The file may be another one than the mapped one where /proc/PID/map_files is closed. */
ssize_t mapped_file__head(pid_t pid, const struct proc_map *map, void *buf, size_t cap);
/* The same of a regular file by an absolute path, as /proc/PID/maps has it. */
ssize_t named_file__head(pid_t pid, const char *path, void *buf, size_t cap);
/* The name of an open file for functions that take a path, the kernel's among them; from malloc,
 * valid while fd is open. */
char *mapped_file__fd_path(int fd);
/* Where the file's byte map->off is linked; UINT64_MAX: in no executable segment. */
uint64_t mapped_file__linked_addr(const struct elf_outline *o, const struct proc_map *map);

/* USDT sites that an ELF file names in .note.stapsdt (systemtap sys/sdt.h). Bounded: any bytes may
 * be there. */

struct usdt_site {
	const char *provider, *name; /* terminated; they point into the note */
	uint64_t addr;               /* ELF vaddr of the instruction */
	uint64_t semaphore;          /* ELF vaddr of a 16-bit counter; 0: it has none */
};
/* False: enough. */
typedef bool (*usdt_fn)(const struct usdt_site *site, void *arg);

void elf_file__for_each_usdt(const struct elf_file *ef, usdt_fn fn, void *arg);

/* The notes of a section; base: where .stapsdt.base is now, 0: not known. False: fn said enough. */
bool usdt_notes__walk(Elf_Data *notes, uint64_t base, usdt_fn fn, void *arg);

#endif /* TARGET_ELF_H */
