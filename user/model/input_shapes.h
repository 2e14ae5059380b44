/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What torch's key_averages() says of a slice's inputs: their shapes as a text, and estimated operations.
 * Rules: pytorch torch/csrc/profiler/collection.cpp, torch/csrc/profiler/util.cpp. Private to the model.
 */
#ifndef MODEL_INPUT_SHAPES_H
#define MODEL_INPUT_SHAPES_H

#include "model/session.h"

struct shapes_text {
	char *text; /* NUL-terminated */
	uint32_t len, cap;
};

/* Makes st->text str(event.input_shapes): "[[2, 3], []]". */
void input_shapes__text(const struct slice *sl, struct shapes_text *st);
/* Floating point operations by torch's formulas; 0 for what has none or cannot be computed. */
uint64_t input_shapes__flops(const struct slice *sl);

#endif /* MODEL_INPUT_SHAPES_H */
