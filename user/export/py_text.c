/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Python's frames as texts; see texts.h. Rules: _prefix_regex() in pytorch
 * torch/profiler/python_tracer.py, trimPrefixes() and name() in torch/csrc/profiler/collection.cpp,
 * _filter_stack_entry() in torch/autograd/profiler_util.py.
 */
#include "export/texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"

/* Behind "/lib/python3.11/"; NULL: the file is not there. */
static const char *behind_stdlib(const char *file)
{
	static const char lib[] = "/lib/python";
	const char *at = strstr(file, lib), *end;

	if (!at)
		return NULL;
	end = at + sizeof(lib) - 1;
	end += strspn(end, "0123456789.t");
	return *end == '/' ? end + 1 : NULL;
}

static const char *behind_packages(const char *file)
{
	static const char *const folders[] = { "/site-packages/", "/dist-packages/" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		const char *at = strstr(file, folders[i]);

		if (at)
			return at + strlen(folders[i]);
	}
	return NULL;
}

bool py_text__is_library(const char *file)
{
	return behind_packages(file) || behind_stdlib(file) || !strncmp(file, "<frozen ", 8) ||
	       strstr(file, "/torchinductor_");
}

/* python puts the program's folder into sys.path; its code is the outermost frame of the main
 * thread. */
void py_paths__find(struct py_paths *paths, const struct session *s)
{
	struct hashmap seen = { 0 }; /* files, by their address, of which that is known already */
	struct py_stack stack;

	paths->script[0] = '\0';
	for (uint32_t i = 1; (stack = session__py_stack(s, i)).frame_cnt; i++) {
		struct py_frame f =
			session__py_frame(s, stack.frames[stack.frame_cnt - 1] & ~PY_FRAME_NATIVE);
		const char *slash;
		size_t len;

		if (strcmp(f.func, "<module>") != 0 || f.file[0] != '/' ||
		    hashmap__get(&seen, (uintptr_t)f.file, 0))
			continue;
		hashmap__put(&seen, (uintptr_t)f.file, 0, 1);
		slash = strrchr(f.file, '/');
		len = (size_t)(slash + 1 - f.file);
		if (py_text__is_library(f.file) || len >= sizeof(paths->script))
			continue;
		memcpy(paths->script, f.file, len);
		paths->script[len] = '\0';
		break;
	}
	hashmap__clear(&seen);
}

const char *py_text__file(const struct py_paths *paths, const char *file)
{
	size_t len = strlen(paths->script);
	const char *tail = behind_packages(file);

	if (!tail && len && !strncmp(file, paths->script, len))
		tail = file + len;
	if (!tail)
		tail = behind_stdlib(file);
	return tail && *tail ? tail : file;
}

/* co_name of a qualified name: the part behind its last dot. */
static const char *short_name(const char *func)
{
	const char *dot = strrchr(func, '.');

	return dot && dot[1] ? dot + 1 : func;
}

char *py_text__torch(const struct py_paths *paths, const struct py_frame *frame, char *buf,
		     size_t cap)
{
	if (frame->module)
		snprintf(buf, cap, "nn.Module: %s_%u", frame->module, frame->module_nr);
	else
		snprintf(buf, cap, "%s(%d): %s", py_text__file(paths, frame->file), frame->first,
			 short_name(frame->func));
	return buf;
}

char *py_text__line(const struct py_paths *paths, const struct session *s, uint32_t number,
		    char *buf, size_t cap)
{
	struct py_stack stack = session__py_stack(s, number);
	struct py_frame own = { 0 };

	for (uint32_t i = 0; i < stack.frame_cnt; i++) {
		struct py_frame f = session__py_frame(s, stack.frames[i] & ~PY_FRAME_NATIVE);
		bool library = py_text__is_library(f.file);

		if (!i || !library)
			own = f;
		if (!library)
			break;
	}
	snprintf(buf, cap, "%s", own.file ? py_text__file(paths, own.file) : "");
	if (own.file && own.line)
		snprintf(buf + strlen(buf), cap - strlen(buf), ":%d", own.line);
	return buf;
}

void py_lines__init(struct py_lines *pl, const struct session *s)
{
	*pl = (struct py_lines){ 0 };
	py_paths__find(&pl->paths, s);
}

void py_lines__free(struct py_lines *pl)
{
	hashmap__clear(&pl->ids);
}

uint32_t py_lines__id(struct py_lines *pl, const struct session *s, struct text_ids *texts,
		      uint32_t stack)
{
	const uint64_t *known = stack ? hashmap__get(&pl->ids, stack, 0) : NULL;
	char text[PY_TEXT_MAX];
	uint32_t id;

	if (!stack || known)
		return known ? (uint32_t)*known : 0;
	py_text__line(&pl->paths, s, stack, text, sizeof(text));
	id = *text ? strtab__add(texts->texts, text, strlen(text)) : 0;
	hashmap__put(&pl->ids, stack, 0, id);
	return id;
}

bool py_text__is_dropped(const char *text)
{
	static const char *const dropped[][2] = {
		{ "autograd/__init__", "_make_grads" },
		{ "autograd/__init__", "backward" },
		{ "torch/tensor", "backward" },
		{ "_internal/common_utils", "prof_callable" },
		{ "_internal/common_utils", "prof_func_call" },
		{ "_internal/common_utils", "prof_meth_call" },
	};

	for (size_t i = 0; i < sizeof(dropped) / sizeof(*dropped); i++)
		if (strstr(text, dropped[i][0]) && strstr(text, dropped[i][1]))
			return true;
	return false;
}

/* ---- group_by_stack_n ---- */

#define GROUP_FRAMES_MAX 16 /* more are as many */

struct py_groups {
	const struct session *s;
	struct py_paths paths;
	uint32_t frame_cnt;
	struct strtab *texts;
	struct hashmap text_ids; /* number of a stack -> text */
	char buf[GROUP_FRAMES_MAX * PY_TEXT_MAX];
};

struct py_groups *py_groups__new(const struct session *s, uint32_t frame_cnt)
{
	struct py_groups *pg = xcalloc(1, sizeof(*pg));

	pg->s = s;
	pg->frame_cnt = frame_cnt < GROUP_FRAMES_MAX ? frame_cnt : GROUP_FRAMES_MAX;
	py_paths__find(&pg->paths, s);
	pg->texts = strtab__new();
	return pg;
}

void py_groups__free(struct py_groups *pg)
{
	if (!pg)
		return;
	strtab__free(pg->texts);
	hashmap__clear(&pg->text_ids);
	free(pg);
}

static size_t put_group(struct py_groups *pg, const struct py_stack *stack)
{
	uint32_t shown = 0;
	size_t len = 0;

	for (uint32_t i = 0; i < stack->frame_cnt && shown < pg->frame_cnt; i++) {
		struct py_frame f = session__py_frame(pg->s, stack->frames[i] & ~PY_FRAME_NATIVE);
		char *text = pg->buf + len + (shown > 0);

		py_text__torch(&pg->paths, &f, text, PY_TEXT_MAX - 1);
		if (py_text__is_dropped(text))
			continue;
		for (char *p = text; (p = strchr(p, '\n'));)
			*p = ' ';
		if (shown++)
			text[-1] = '\n';
		len = (size_t)(text - pg->buf) + strlen(text);
	}
	return len;
}

const char *py_groups__text(void *arg, const struct slice *sl)
{
	struct py_groups *pg = arg;
	uint32_t number = slice__torch_stack(sl), id;
	struct py_stack stack = session__py_stack(pg->s, number);
	uint64_t *known = hashmap__get(&pg->text_ids, number, 0);

	if (known)
		return strtab__text(pg->texts, (uint32_t)*known);
	if (!stack.frame_cnt)
		return "";
	id = strtab__add(pg->texts, pg->buf, put_group(pg, &stack));
	hashmap__put(&pg->text_ids, number, 0, id);
	return strtab__text(pg->texts, id);
}
