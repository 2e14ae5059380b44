/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A capture with every kind of record at least once, for fuzzers and for hostile texts. */
#ifndef TESTS_SEED_CAPTURE_H
#define TESTS_SEED_CAPTURE_H

#include "capture_builder.h"

/* Small enough that its blocks are stored as they are or nearly. `behind` follows each text of the target's. */
struct builder *seed_capture__new(const char *behind);

#endif /* TESTS_SEED_CAPTURE_H */
