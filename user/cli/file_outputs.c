/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The table of files that `ptbpf export` writes. */
#include "cli/outputs.h"

#include <string.h>

const struct file_output file_outputs[] = {
#define X(row, name, suffixes, help) { &row, name, suffixes, help },
	FILE_OUTPUTS(X, X)
#undef X
		{ 0 },
};

const struct file_output *file_output__find(const char *name)
{
	const struct file_output *f = file_outputs;

	while (f->output && strcmp(f->name, name) != 0)
		f++;
	return f->output ? f : NULL;
}

/* Length without ".gz". */
static size_t plain_len(const char *text, size_t len)
{
	return len > 3 && !strncmp(text + len - 3, ".gz", 3) ? len - 3 : len;
}

const struct file_output *file_output__of_path(const char *path, size_t *stem)
{
	size_t len = plain_len(path, strlen(path)), longest = 0;
	const struct file_output *found = NULL;

	*stem = strlen(path);
	for (const struct file_output *f = file_outputs; f->output; f++)
		for (const char *suffix = f->suffixes; *suffix;) {
			size_t all = strcspn(suffix, " "), n = plain_len(suffix, all);

			if (n > longest && len >= n && !strncmp(path + len - n, suffix, n)) {
				found = f;
				longest = n;
				*stem = len - n;
			}
			suffix += all + strspn(suffix + all, " ");
		}
	return found;
}
