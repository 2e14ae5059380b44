/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Pages that load nothing: templates of export/html, whose {{fields}} C fills in, and the escaping of foreign texts. */
#ifndef EXPORT_HTML_PAGE_H
#define EXPORT_HTML_PAGE_H

#include <stddef.h>
#include <stdio.h>

/* Writes the field with this name (not terminated); 0, -EINVAL: there is none, or another negative errno. */
typedef int (*html_field)(void *arg, FILE *f, const char *name, size_t len);

/* Writes a template: {{name}} stands for a field. 0 or the negative errno of a field. */
int html__put_template(FILE *f, const char *text, html_field put, void *arg);
/*
 * A text of the capture: nothing in it is markup, a byte that is no UTF-8 is shown as the character of its number, and
 * what is not plain text as U+FFFD.
 */
void html__put_text(FILE *f, const char *text);
/* A jsonw_out into the stream (arg) for JSON inside <script>: nothing in it ends that. */
int html__put_json(void *arg, const void *data, size_t len);

#endif /* EXPORT_HTML_PAGE_H */
