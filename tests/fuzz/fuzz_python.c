/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as what CPython has in memory: a line table, a text, the table for debuggers, or the lock; the first byte selects. */
#include <stdlib.h>
#include <string.h>

#include "python/python.h"
#include "python/python_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void find_line(const uint8_t *data, size_t len)
{
	int32_t first, at, line;

	memcpy(&first, data, 4);
	memcpy(&at, data + 4, 4);
	line = py_line__find((enum ptb_py_lines)(data[8] % 4), data + 9, len - 9, first & INT32_MAX, at);
	if (line < PY_NO_LINE)
		abort();
}

static void read_text(const uint8_t *data, size_t len)
{
	static const struct ptb_py_offsets off = { .str_ascii = 40, .str_compact = 56 };
	char buf[512];
	uint64_t length;
	uint32_t state;
	struct py_str s;
	bool cut;

	memcpy(&state, data, 4);
	memcpy(&length, data + 4, 8);
	if (!py_str__parse(&off, state, length, &s) || s.size > len - 12)
		return;
	if (py_str__to_utf8(&s, data + 12, buf, sizeof(buf), &cut) >= sizeof(buf) || s.size > PY_TEXT_MAX)
		abort();
}

static void fill_layout(const uint8_t *data, size_t len)
{
	struct ptb_py_layout l;
	const char *why;
	uint32_t hint;

	memcpy(&hint, data, 4);
	if (py_layout__fill(data + 4, len - 4, hint, &l, &why))
		return;
	if (l.off.lines < PTB_PY_LNOTAB || l.off.lines > PTB_PY_LOCATIONS ||
	    l.off.code_linetable > PY_OBJECT_OFF_MAX)
		abort();
}

/* With a version that is known: what the mutations rarely make. */
static void fill_known_layout(const uint8_t *data, size_t len)
{
	uint8_t *copy = malloc(len);
	uint64_t version = PY_VERSION_OF(13 + data[0] % 3) | 0xf0;

	if (!copy)
		return;
	memcpy(copy, data, len);
	memset(copy, 0, 4);
	memcpy(copy + 4, "xdebugpy", 8);
	memcpy(copy + 12, &version, 8);
	memset(copy + 20, 0, 8);
	for (size_t i = 28; i + 8 <= len; i += 8)
		memset(copy + i + 2, 0, data[i] % 16 ? 6 : 0);
	fill_layout(copy, len);
	free(copy);
}

/* In bytes with a lock, one word of which may be any other. */
static void find_gil(const uint8_t *data, size_t len)
{
	struct py_gil g = { .interval = 1, .last_holder = 8 };
	uint8_t *copy = len >= sizeof(g) ? malloc(len) : NULL;
	size_t at;

	if (!copy)
		return;
	g.cond[3] = g.switch_cond[3] = 2ull << 32;
	if (data[0] % 32 < sizeof(g) / 8)
		memcpy((uint8_t *)&g + data[0] % 32 * 8, data + 1, 8);
	memcpy(copy, data, len);
	memcpy(copy + data[9] % ((len - sizeof(g)) / 8 + 1) * 8, &g, sizeof(g));
	at = py_gil__scan(copy, len, &g);
	if (at != len && (at % 8 || memcmp(copy + at, &g, sizeof(g)) || g.locked > 1))
		abort();
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len < 64)
		return 0;
	switch (data[0] % 5) {
	case 0:
		find_line(data + 1, len - 1);
		break;
	case 1:
		read_text(data + 1, len - 1);
		break;
	case 2:
		fill_layout(data + 1, len - 1);
		break;
	case 3:
		find_gil(data + 1, len - 1);
		break;
	default:
		fill_known_layout(data + 1, len - 1);
	}
	return 0;
}
