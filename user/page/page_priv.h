/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the page shows beside reports: documents of JSON as these, too, of a bounded size. */
#ifndef PAGE_PAGE_PRIV_H
#define PAGE_PAGE_PRIV_H

#include "export/output.h"

extern const struct output page_steps, page_memory, page_samples, page_flame;

/* A document's JSON, by args, whose stream it goes to. page_json__end(): 0 or negative errno. */
void page_json__begin(struct jsonw *w, const struct output_args *args);
int page_json__end(struct jsonw *w);

#endif /* PAGE_PAGE_PRIV_H */
