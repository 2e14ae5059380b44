/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See layout.h. The table for debuggers: cpython Include/internal/pycore_debug_offsets.h (3.13:
 * pycore_runtime.h). */
#include "python/python.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define COOKIE "xdebugpy"
#define RELEASE_FINAL 0xfu
#define FIRST_WITH_TABLE 13 /* 3.13 */

#define FIELDS (sizeof(struct ptb_py_offsets) / sizeof(uint16_t))

static const struct layout_row {
	uint32_t minor;
	struct ptb_py_offsets layout; /* constants */
	/* byte positions of the others in the table; 0: a constant */
	struct ptb_py_offsets debug_offsets;
} rows[] = {
#include "python/layouts.inc"
};

static const struct layout_row *find_row(uint32_t version)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (PY_VERSION_OF(rows[i].minor) == (version & 0xffff0000u))
			return &rows[i];
	return NULL;
}

static uint64_t word_at(const uint8_t *bytes, size_t at)
{
	uint64_t v;

	memcpy(&v, bytes + at, sizeof(v));
	return v;
}

/* Interpreters and _PyRuntime, whose fields are the first ones, are large. */
static bool is_plausible(size_t field, uint64_t v)
{
	bool large = field < offsetof(struct ptb_py_offsets, tstate_next) / sizeof(uint16_t);

	return v < PTB_PY_NONE && (large || v <= PY_OBJECT_OFF_MAX);
}

static bool fill_from_table(const struct layout_row *row, const uint8_t *runtime, size_t len,
			    struct ptb_py_offsets *off)
{
	uint16_t values[FIELDS], at[FIELDS];

	memcpy(values, &row->layout, sizeof(values));
	memcpy(at, &row->debug_offsets, sizeof(at));
	for (size_t i = 0; i < FIELDS; i++) {
		if (!at[i])
			continue;
		if (at[i] + 8u > len || !is_plausible(i, word_at(runtime, at[i])))
			return false;
		values[i] = (uint16_t)word_at(runtime, at[i]);
	}
	memcpy(off, values, sizeof(values));
	return true;
}

static bool has_cookie(const uint8_t *runtime, size_t len)
{
	return len >= 24 && !memcmp(runtime, COOKIE, 8);
}

/* A release for good has 0xf0 at the end; 0 where the whole number is not known. */
static bool is_release(uint32_t version)
{
	return !(version & 0xffff) || (version >> 4 & 0xf) == RELEASE_FINAL;
}

int py_layout__fill(const uint8_t *runtime, size_t len, uint32_t hint, struct ptb_py_layout *out,
		    const char **why)
{
	bool cookie = has_cookie(runtime, len);
	const struct layout_row *row;

	memset(out, 0, sizeof(*out));
	out->version = cookie ? (uint32_t)word_at(runtime, 8) : hint;
	row = find_row(out->version);
	*why = NULL;
	if (!out->version)
		*why = "its version is not known";
	else if (cookie && word_at(runtime, 8) >> 32)
		*why = "its table for debuggers is damaged";
	else if (cookie && hint && (hint ^ out->version) & 0xffff0000u)
		*why = "its table for debuggers is of another version";
	else if (!is_release(out->version))
		*why = "it is a preliminary version, whose layout may differ from the release's";
	else if (!row)
		*why = "the layout of this version is not known";
	else if (row->minor >= FIRST_WITH_TABLE && !cookie)
		*why = "its table for debuggers is missing";
	else if (cookie && word_at(runtime, 16))
		*why = "free-threaded builds are not supported";
	else if (!fill_from_table(row, runtime, len, &out->off))
		*why = "its table for debuggers is damaged";
	return *why ? -ENOTSUP : 0;
}

void py_version__print(uint32_t version, char buf[PY_VERSION_TEXT])
{
	static const char *const levels[] = { [0xa] = "a", [0xb] = "b", [0xc] = "rc" };
	uint32_t level = version >> 4 & 0xf, n;

	n = (uint32_t)snprintf(buf, PY_VERSION_TEXT, "%u.%u", version >> 24, version >> 16 & 0xff);
	if (!(version & 0xffff))
		return;
	n += (uint32_t)snprintf(buf + n, PY_VERSION_TEXT - n, ".%u", version >> 8 & 0xff);
	if (level >= 0xa && level <= 0xc)
		snprintf(buf + n, PY_VERSION_TEXT - n, "%s%u", levels[level], version & 0xf);
}
