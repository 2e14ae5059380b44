/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Every JSON document of a session, parsed again. */
#ifndef TESTS_FUZZ_EXPORTS_H
#define TESTS_FUZZ_EXPORTS_H

#include "model/session.h"

/* Aborts when a document is not JSON, is no UTF-8, or has a control character. Each call makes one kind, in turn. */
void check_exports(struct session *s);

#endif /* TESTS_FUZZ_EXPORTS_H */
