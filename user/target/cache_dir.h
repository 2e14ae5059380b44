/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The directory of cached plans, hashes and answers: root's alone. What is read from it decides where probes are placed,
 * so directory and files are used only if they are root's own, accessible to nobody else, and no links.
 */
#ifndef TARGET_CACHE_DIR_H
#define TARGET_CACHE_DIR_H

#include <stddef.h>
#include <stdint.h>

#define PLAN_CACHE_DIR "/var/cache/ptbpf"

/* A descriptor, the caller's to close, or negative errno (logged unless -ENOENT). path NULL: PLAN_CACHE_DIR; made
 * where it is missing. -EPERM: it is not root's alone. */
int cache_dir__open(const char *path);
/* The whole file, of min to max bytes; *out from malloc. 0 or negative errno. */
int cache_dir__read(int dir, const char *name, size_t min, size_t max, uint8_t **out, size_t *len);
/* Under another name first, so that a reader never sees half a file; then the oldest files are deleted until the
 * rest fits LIMIT_PLAN_CACHE_MIB. Not synced: a damaged file is not believed, and made again. 0 or negative errno. */
int cache_dir__write(int dir, const char *name, const uint8_t *data, size_t len);

#endif /* TARGET_CACHE_DIR_H */
