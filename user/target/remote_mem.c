/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory of the target: process_vm_readv, else /proc/PID/mem where a policy forbids the former.
 * What was read may change under us and is never trusted by callers.
 */
#include "target/proc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc_read.h"
#include "base/text.h"

#define PAGE_SZ 4096u  /* the smallest there is on x86-64: reads are cut at its multiples */
#define BATCH_MAX 512u /* below IOV_MAX */
#define MANGLED_MAX 1024

static bool must_fall_back(int err)
{
	return err == ENOSYS || err == EPERM || err == EACCES;
}

static ssize_t read_by_mem_file(pid_t pid, uint64_t addr, void *buf, size_t len)
{
	struct remote_mem *rm;
	ssize_t n = remote_mem__open(pid, false, &rm);

	if (!n)
		n = remote_mem__read(rm, addr, buf, len);
	remote_mem__close(rm);
	return n;
}

ssize_t remote__read_some(pid_t pid, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = { buf, len };
	struct iovec remote = { (void *)(uintptr_t)addr, len };
	ssize_t n;

	if (!len)
		return 0;
	if (len > PTRDIFF_MAX || addr > UINT64_MAX - len)
		return -EFAULT;
	n = proc_mem__readv(pid, &local, &remote, 1);
	if (n > 0)
		return n;
	if (n < 0 && must_fall_back(errno))
		return read_by_mem_file(pid, addr, buf, len);
	return n < 0 ? -errno : -EFAULT;
}

int remote__read(pid_t pid, uint64_t addr, void *buf, size_t len)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = remote__read_some(pid, addr + done, (char *)buf + done, len - done);
		if (n < 0)
			return (int)n;
		done += (size_t)n;
	}
	return 0;
}

/* One call for up to BATCH_MAX pieces; how many came whole, negative errno if not even one. */
static int read_batch(pid_t pid, struct remote_piece *pieces, uint32_t cnt)
{
	struct iovec local[BATCH_MAX], remote[BATCH_MAX];
	uint32_t i;
	ssize_t n;

	for (i = 0; i < cnt; i++) {
		local[i].iov_base = pieces[i].buf;
		remote[i].iov_base = (void *)(uintptr_t)pieces[i].addr;
		local[i].iov_len = remote[i].iov_len = pieces[i].len;
	}
	n = proc_mem__readv(pid, local, remote, cnt);
	if (n < 0)
		return -errno;
	for (i = 0; i < cnt && (size_t)n >= pieces[i].len; i++) {
		n -= (ssize_t)pieces[i].len;
		pieces[i].ok = true;
	}
	return (int)i;
}

int remote__read_pieces(pid_t pid, struct remote_piece *pieces, uint32_t cnt)
{
	uint32_t n, done = 0;
	int got, err;

	for (uint32_t i = 0; i < cnt; i++)
		pieces[i].ok = false;
	while (done < cnt) {
		n = cnt - done < BATCH_MAX ? cnt - done : BATCH_MAX;
		got = read_batch(pid, pieces + done, n);
		if (got == (int)n) {
			done += n;
			continue;
		}
		if (got > 0)
			done += (uint32_t)got;
		/* this one ended the batch: it cannot be read, or by /proc/PID/mem only */
		err = remote__read(pid, pieces[done].addr, pieces[done].buf, pieces[done].len);
		if (err && err != -EFAULT)
			return err;
		pieces[done++].ok = !err;
	}
	return 0;
}

int remote__read_cstr(pid_t pid, uint64_t addr, char *buf, size_t cap)
{
	size_t n = 0, want;
	ssize_t got;

	if (!cap)
		return -EINVAL;
	while (n < cap) {
		/* never beyond the page in which the text may end */
		want = PAGE_SZ - ((addr + n) & (PAGE_SZ - 1));
		if (want > cap - n)
			want = cap - n;
		got = remote__read_some(pid, addr + n, buf + n, want);
		if (got < 0) {
			buf[n] = 0;
			return (int)got;
		}
		if (memchr(buf + n, 0, (size_t)got))
			return 0;
		n += (size_t)got;
	}
	buf[cap - 1] = 0;
	return -ENAMETOOLONG;
}

int remote__read_string(pid_t pid, uint64_t addr, bool old_abi, char *buf, size_t cap)
{
	/* text, length: bits/basic_string.h; bits/cow_string.h keeps the latter before the text */
	uint64_t head[2] = { 0, 0 };
	size_t len;
	int err;

	if (!cap)
		return -EINVAL;
	buf[0] = 0;
	err = remote__read(pid, addr, head, old_abi ? 8 : 16);
	if (!err && old_abi)
		err = remote__read(pid, head[0] - 24, &head[1], 8);
	if (err)
		return err;
	len = head[1] < cap ? (size_t)head[1] : cap - 1;
	err = remote__read(pid, head[0], buf, len);
	buf[err ? 0 : len] = 0;
	if (err)
		return err;
	return head[1] < cap ? 0 : -ENAMETOOLONG;
}

/* ---- class names ---- */

static bool is_mangled_text(const char *s)
{
	const char *p;

	for (p = s; *p; p++)
		if (*p <= ' ' || *p > '~')
			return false;
	return p != s;
}

/* The Itanium C++ ABI's run-time type information (section 2.9.5): vptr - 8 holds the type_info,
 * whose second word is the mangled name. */
int remote__class_name(pid_t pid, uint64_t vptr, uint64_t *spent_ns, char *buf, size_t cap)
{
	char mangled[MANGLED_MAX], *text = mangled, *plain;
	uint64_t info, name;
	int err, n;

	if (!cap)
		return -EINVAL;
	buf[0] = 0;
	err = remote__read(pid, vptr - 8, &info, sizeof(info));
	if (!err)
		err = remote__read(pid, info + 8, &name, sizeof(name));
	if (!err)
		err = remote__read_cstr(pid, name, mangled, sizeof(mangled));
	if (err)
		return err;
	if (*text == '*') /* "compare by address": a class of internal linkage */
		text++;
	if (!is_mangled_text(text))
		return -EFAULT;
	plain = demangle(text, spent_ns);
	n = snprintf(buf, cap, "%s", plain ? plain : text);
	free(plain);
	return n < 0 || (size_t)n >= cap ? -ENAMETOOLONG : 0;
}
