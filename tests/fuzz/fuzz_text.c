/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as texts that a process or its libraries control; the first byte selects the text. */
#include <stdlib.h>
#include <string.h>

#include "args/schema.h"
#include "base/text.h"
#include "code/code.h"
#include "target/proc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void maps(const char *text, size_t len)
{
	struct proc_maps pm;

	proc_maps__parse(text, len, &pm);
	proc_maps__free(&pm);
}

static void schema(const char *text, size_t len)
{
	struct schema s, again;
	char out[SCHEMA_TEXT_MAX], printed[SCHEMA_TEXT_MAX];
	const char *open;

	if (!schema_text__parse(text, len, "aten::add.Tensor", &s, out, sizeof(out))) {
		schema_text__parse(text, len, "", &s, NULL, 0);
		return;
	}
	/* what is printed is a schema */
	open = strchr(out, '(');
	if (!open || !schema_text__parse(open, strlen(open), "aten::add.Tensor", &again, printed,
					 sizeof(printed)))
		abort();
}

static void symbol(const char *text)
{
	uint64_t spent_ns = 0;
	char buf[256];

	free(demangle(text, &spent_ns));
	cxx_name__short(text, buf, sizeof(buf));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text;

	if (!len)
		return 0;
	text = malloc(len);
	if (!text)
		return 0;
	memcpy(text, data + 1, len - 1);
	text[len - 1] = '\0';
	switch (data[0] % 3) {
	case 0:
		maps(text, len - 1);
		break;
	case 1:
		schema(text, len - 1);
		break;
	default:
		symbol(text);
	}
	free(text);
	return 0;
}
