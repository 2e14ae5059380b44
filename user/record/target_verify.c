/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Compares a plan with the process that it is to be used for; see target_verify.h. */
#include "record/target_verify.h"

#define LOG_DOMAIN "targets"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/probe_set.h"

static void fill(struct probe_lib *lib, const struct torch_lib *tl, const struct torch_plan *plan,
		 uint32_t role)
{
	uint32_t i;

	lib->name = tl->path;
	lib->access_path = tl->access_path;
	lib->cnt = 0;
	for (i = 0; i < plan->site_cnt; i++) {
		const struct plan_site *s = &plan->sites[i];
		struct probe_site *p = &lib->sites[lib->cnt];

		if (s->lib != role)
			continue;
		*p = (struct probe_site){ .offset = s->offset, .insn_len = s->len };
		memcpy(p->insn, s->bytes, s->len);
		lib->cnt++;
	}
}

int target_verify(const struct torch_proc *tp, const struct torch_plan *plan)
{
	struct probe_lib lib = { .sites = calloc(plan->site_cnt + 1ULL, sizeof(*lib.sites)) };
	int err = lib.sites ? 0 : -ENOMEM;
	uint32_t role;

	if (err)
		pr_error("cannot compare the code of pid %d with its plan: %s", (int)tp->pid,
			 errstr(err));
	for (role = 0; role < TORCH_LIB_ROLES && !err; role++) {
		if (!tp->libs[role].present)
			continue;
		fill(&lib, &tp->libs[role], plan, role);
		err = probe_set__verify(tp->pid, &lib, 1);
	}
	free(lib.sites);
	return err;
}
