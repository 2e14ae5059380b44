/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The CPython of one target; see targets.h. */
#define LOG_DOMAIN "python"
#include "record/targets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/proc_read.h"
#include "python/python.h"
#include "target/proc.h"

#define META_MAX 32 /* processes that the capture describes */

static void say_python(struct target_python *py, const struct py_interp *pi, int err)
{
	char version[PY_VERSION_TEXT + 1] = "";

	if (pi->layout.version) {
		version[0] = ' ';
		py_version__print(pi->layout.version, version + 1);
	}
	snprintf(py->why, sizeof(py->why), "CPython%s: %s", version,
		 err == -ENOTSUP ? pi->why : errstr(err));
	py->layout.version = pi->layout.version;
}

static void refuse_python(struct targets *ts, struct target *t, const struct py_interp *pi, int err)
{
	say_python(&t->python, pi, err);
	t->python.state = PYTHON_REFUSED;
	ts->no_stacks++;
	pr_warn("pid %d: no Python stacks: %s", t->pid, t->python.why);
}

static void take_python(struct target_python *py, const struct py_interp *pi)
{
	py->state = PYTHON_READ;
	py->layout = pi->layout;
	py->code_end = pi->code_end;
	py->why[0] = '\0';
}

static void warn_no_gil(const struct target *t, int err)
{
	if (err && err != -ESRCH && err != -ECANCELED)
		pr_warn("pid %d: its waits for the GIL are shown as waits for a lock: %s", t->pid,
			err == -ENOENT ? "no GIL is found in it" : errstr(err));
}

/* py_interp__find(), and the GIL where it is asked for. */
static int find_interp(const struct targets *ts, struct target *t, struct py_interp *pi)
{
	int err = py_interp__find(t->pid, pi);

	if (ts->opts->sched && !t->python.gil_known) {
		warn_no_gil(t, err ? err : py_gil__find(t->pid, pi, &t->python.gil));
		t->python.gil_known = true;
	}
	return err;
}

static bool reads_python(const struct targets *ts)
{
	return ts->opts->stacks || ts->opts->with_samples;
}

void target_python__find(struct targets *ts, struct target *t)
{
	struct py_interp pi = { 0 };
	int err;

	if (!reads_python(ts) || t->python.state != PYTHON_UNKNOWN)
		return;
	err = find_interp(ts, t, &pi);
	if (!err) {
		take_python(&t->python, &pi);
	} else if (err == -ENOENT) {
		t->python.state = PYTHON_NONE;
		pr_info("pid %d: no Python stacks: no Python interpreter in it", t->pid);
	} else if (err != -ESRCH && err != -ECANCELED) {
		refuse_python(ts, t, &pi, err);
	}
	py_interp__clear(&pi);
}

int target_python__await(struct targets *ts, struct target *t)
{
	struct target_python *py = &t->python;
	struct py_interp pi = { 0 };
	int err = 0;

	if (py->state == PYTHON_READ)
		return 0;
	err = py_interp__find(t->pid, &pi);
	if (!err) {
		take_python(py, &pi);
	} else if (err == -ENOTSUP && pi.late) {
		refuse_python(ts, t, &pi, err);
		err = -ETIMEDOUT;
	} else if (err == -ENOTSUP) {
		say_python(py, &pi, err);
		err = -EAGAIN;
	} else if (err == -ENOENT) {
		snprintf(py->why, sizeof(py->why), "no Python interpreter in it");
		err = -EAGAIN;
	}
	py_interp__clear(&pi);
	return err;
}

/* Opens the interpreter's file without a request to the server of its file system. A descriptor or
 * negative errno. */
static int open_interpreter(const struct target *t)
{
	const struct py_code_end *ce = &t->python.code_end;
	int fd = proc_map_file__open(t->pid, ce->start, ce->end), err;

	if (fd < 0)
		return fd;
	err = file_server__check(fd, t->pid, FILE_SERVER_ROOTS);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* Attaches where code objects end, so that stacks need not read code objects again. The probe emits
 * no records. */
static bool probe_code_end(struct targets *ts, const struct target *t, uint32_t idx)
{
	const struct py_code_end *ce = &t->python.code_end;
	struct probe_site site = {
		.id = 1, .prog = PTB_PROG_CODE_END, .offset = ce->offset, .insn_len = ce->insn_len
	};
	struct probe_lib lib = { .name = "CPython", .sites = &site, .cnt = 1 };
	int fd = ce->insn_len ? open_interpreter(t) : -ENOENT, n;
	char path[32];

	if (fd < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	lib.access_path = path;
	memcpy(site.insn, ce->insn, sizeof(ce->insn));
	n = probe_set__add_libs(ts->ps, idx, &lib, 1);
	close(fd);
	ts->probes += n == 1;
	return n == 1;
}

void target_python__use(struct targets *ts, struct target *t, uint32_t idx)
{
	struct ptb_py_layout layout = t->python.layout;
	int err;

	if (t->python.state != PYTHON_READ)
		return;
	layout.modules = ts->opts->modules;
	if (idx == t->proc_idx && ts->opts->stacks)
		t->python.code_ends = probe_code_end(ts, t, idx) ? idx + 1 : 0;
	if (idx == t->proc_idx || (t->agent && idx == t->agent->proc_idx))
		layout.code_ends = t->python.code_ends;
	err = probe_set__python(ts->ps, idx, &layout);
	if (err)
		pr_warn("pid %d: no Python stacks: %s", t->pid, errstr(err));
	else if (ts->opts->with_samples && idx == t->proc_idx)
		err = probe_set__sample(ts->ps, idx); /* reports it */
	ts->no_stacks += err != 0;
}

void target_python__use_gil(struct targets *ts, struct target *t)
{
	struct target_python *py = &t->python;
	struct py_interp pi;

	if (!ts->opts->sched)
		return;
	if (!py->gil_known) {
		find_interp(ts, t, &pi);
		py_interp__clear(&pi);
	}
	if (py->gil.end)
		warn_no_gil(t, probe_set__gil(ts->ps, (uint32_t)t->pid, &py->gil));
}

void target_python__count_collections(struct targets *ts, bool end)
{
	for (uint32_t i = 0; i < ts->cnt; i++) {
		struct target_python *py = &ts->items[i].python;
		uint64_t now[PY_GENERATIONS] = { 0 };

		py->counted = (py->counted || !end) && py->state == PYTHON_READ &&
			      !py_gc__collections(ts->items[i].pid, &py->layout, now);
		for (uint32_t g = 0; g < PY_GENERATIONS; g++)
			py->collections[g] = now[g] - py->collections[g];
	}
}

static void python_json(struct jsonw *w, const void *arg)
{
	const struct targets *ts = arg;
	char version[PY_VERSION_TEXT];
	uint32_t written = 0;

	jsonw__begin_arr(w);
	for (uint32_t i = 0; i < ts->cnt; i++) {
		const struct target_python *py = &ts->items[i].python;

		if (ts->items[i].inherits ||
		    (py->state != PYTHON_READ && py->state != PYTHON_REFUSED) ||
		    written++ >= META_MAX)
			continue;
		py_version__print(py->layout.version, version);
		jsonw__begin_obj(w);
		JSONW_I64(w, "pid", ts->items[i].pid);
		JSONW_STR(w, "version", py->layout.version ? version : "");
		JSONW_STR(w, "why", py->why);
		if (py->counted) {
			JSONW_ARR(w, "collections");
			for (uint32_t g = 0; g < PY_GENERATIONS; g++)
				jsonw__u64(w, py->collections[g]);
			jsonw__end_arr(w);
		}
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

void target_python__meta(const struct targets *ts)
{
	if (reads_python(ts))
		recorder__meta_json(ts->rec, "python", python_json, ts);
}
