/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The programs of the skeleton by mode; inside user/probe only. */
#ifndef PROBE_PROGRAMS_H
#define PROBE_PROGRAMS_H

#include <errno.h>

#include "probe/probe_set.h"
#include "ptbpf.skel.h"

#define PROGRAMS_SCRATCH_CNT 4 /* PTB_SCRATCH_CNT of bpf/maps.bpf.h */

/* out[PTB_PROG_CNT]: program of each row of PTB_PROGS */
void programs__map(struct ptbpf_bpf *s, enum probe_args args, struct bpf_program **out);
/* Before load: what is loaded, and how large its maps are. 0 or negative errno. */
int programs__configure(struct ptbpf_bpf *s, const struct probe_set_opts *opts,
			struct bpf_program **progs);
/* The row whose program serves the site in this mode; PTB_PROG_CNT: it is not probed. */
uint32_t programs__variant(const struct probe_set_opts *opts, const struct ptb_proc_cfg *cfg,
			   const struct probe_site *site);

#endif /* PROBE_PROGRAMS_H */
