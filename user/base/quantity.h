/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers with units, as people write them in options. */
#ifndef BASE_QUANTITY_H
#define BASE_QUANTITY_H

#include <stdint.h>

/* "5s", "250ms", "2m", plain number: seconds. 0 or -EINVAL. */
int quantity__duration(const char *text, uint64_t *ns);
/* "4MiB", "64k", plain number: bytes. 0 or -EINVAL. */
int quantity__size(const char *text, uint64_t *bytes);

/* "0.5%": 0.005. 0 or -EINVAL. */
int quantity__percent(const char *text, double *share);

#endif /* BASE_QUANTITY_H */
