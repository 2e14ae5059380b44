/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a register holds before an instruction, as far as the code just before it says: an address
 * (lea of something rip-relative), a constant, or unknown. Follows one path backwards, so the caller
 * must treat the answer as evidence, not proof.
 */
#ifndef CODE_REG_TRACK_H
#define CODE_REG_TRACK_H

#include "code/flow.h"

enum reg_value { VALUE_UNKNOWN, VALUE_CONST, VALUE_ADDR };

enum reg_value reg_track__before(const struct flow *f, uint32_t node, uint8_t reg, int64_t *value);

#endif /* CODE_REG_TRACK_H */
