/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What user space does for --when (bpf/when.bpf.h): the name to compare with, processes, and which function a site belongs to. */
#define LOG_DOMAIN "probe_set"
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/log.h"
#include "probe/probe_state.h"

void when__configure(struct ptbpf_bpf *s, const struct probe_set_opts *opts)
{
	size_t len = opts->when ? strlen(opts->when) : 0;
	bool on = opts->when != NULL, prefix = len && opts->when[len - 1] == '*';
	char text[PTB_WHEN_MAX] = "", mask[PTB_WHEN_MAX] = "";

	bpf_map__set_autocreate(s->maps.when_threads, on);
	bpf_map__set_autocreate(s->maps.when_occurrences, on);
	bpf_map__set_autocreate(s->maps.when_procs, on);
	bpf_map__set_autocreate(s->maps.when_funcs, on);
	if (!on)
		return;
	len -= prefix;
	if (len > sizeof(text))
		len = sizeof(text);
	memcpy(text, opts->when, len);
	memset(mask, 0xff, len);
	s->rodata->when_on = 1;
	s->rodata->when_len = (uint32_t)len;
	s->rodata->when_prefix = prefix;
	s->rodata->when_every = opts->every ? opts->every : 1;
	memcpy((void *)s->rodata->when_text, text, sizeof(text));
	memcpy((void *)s->rodata->when_mask, mask, sizeof(mask));
}

int when__add_process(const struct ptbpf_bpf *s, uint32_t tgid)
{
	struct ptb_when_proc none = { .seen = 0 };
	int fd = bpf_map__fd(s->maps.when_procs);

	if (!s->rodata->when_on || !bpf_map_update_elem(fd, &tgid, &none, BPF_NOEXIST) || errno == EEXIST)
		return 0;
	pr_error("--when: process %u: %s", tgid, errstr(errno));
	return -errno;
}

void when__remove_process(const struct ptbpf_bpf *s, uint32_t tgid)
{
	if (s->rodata->when_on)
		bpf_map_delete_elem(bpf_map__fd(s->maps.when_procs), &tgid);
}

int when__add_sites(const struct ptbpf_bpf *s, const struct probe_lib *lib)
{
	int fd = bpf_map__fd(s->maps.when_funcs);

	for (uint32_t i = 0; s->rodata->when_on && i < lib->cnt; i++) {
		const struct probe_site *site = &lib->sites[i];

		if (site->id < PTB_WHEN_SITES &&
		    bpf_map_update_elem(fd, &site->id, &site->func, BPF_ANY)) {
			pr_error("--when: sites of '%s': %s", lib->name, errstr(errno));
			return -errno;
		}
	}
	return 0;
}

void when__begin(const struct ptbpf_bpf *s)
{
	static const struct ptb_when_occurrence free_one;
	static const struct ptb_when_proc none;
	int fd = bpf_map__fd(s->maps.when_procs);
	uint32_t tgid, *last = NULL;

	if (!s->rodata->when_on)
		return;
	for (uint32_t i = 0; i < PTB_WHEN_OCCURRENCES; i++)
		bpf_map_update_elem(bpf_map__fd(s->maps.when_occurrences), &i, &free_one, BPF_ANY);
	for (; !bpf_map_get_next_key(fd, last, &tgid); last = &tgid)
		bpf_map_update_elem(fd, &tgid, &none, BPF_EXIST);
	__atomic_store_n(&s->bss->when_open, 0, __ATOMIC_SEQ_CST);
}
