/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The programs of the skeleton; inside user/probe only. */
#ifndef PROBE_PROGRAMS_H
#define PROBE_PROGRAMS_H

#include <errno.h>

#include "probe/probe_set.h"
#include "ptbpf.skel.h"

#define PROGRAMS_SCRATCH_CNT 4 /* PTB_SCRATCH_CNT of bpf/maps.bpf.h */

/*
 * Before load: what is loaded, and how large its maps are. out[PTB_PROG_CNT]: the program of each row of PTB_PROGS; NULL:
 * none with these options, and its sites are not probed. 0 or negative errno.
 */
int programs__configure(struct ptbpf_bpf *s, const struct probe_set_opts *opts, struct bpf_program **out);

#endif /* PROBE_PROGRAMS_H */
