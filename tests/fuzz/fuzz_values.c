/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Any words as an argument payload: the walk must end, stay inside the words, and agree with itself; what Chrome and
 * Execution Traces make of them is JSON, with arrays of one length.
 * Built in two forms, as fuzz_capture.c:  fuzz_values [iterations [seed]]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "export/chrome_priv.h"
#include "export/et_priv.h"
#include "value_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define ANY UINT32_MAX

struct bounds {
	const char *from, *to;
};

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void inside(const struct bounds *b, const void *p, size_t bytes)
{
	const char *c = p;

	check(!bytes || (c >= b->from && c <= b->to && bytes <= (size_t)(b->to - c)));
}

/* Number of values, elements and all; of `present` on top. */
static uint32_t walk(const struct bounds *b, const struct slice_values *sv, uint32_t nest, uint32_t present)
{
	struct value_iter it = values__begin(sv);
	uint32_t n = 0, top = 0;
	struct value v;

	while (values__next(&it, &v)) {
		size_t one = v.kind == PTB_VAL_INTS || v.kind == PTB_VAL_DOUBLES ? 8 : 1;

		top++;
		n++;
		check(nest <= PTB_NEST_MAX);
		check(v.kind != PTB_VAL_STATE && v.kind <= PTB_VAL_STATE);
		if (v.data)
			inside(b, v.data, v.present * one);
		if (v.sizes)
			inside(b, v.sizes, v.ndim * sizeof(*v.sizes));
		if (v.strides)
			inside(b, v.strides, v.ndim * sizeof(*v.strides));
		if (v.elems.flags) {
			inside(b, v.elems.words, v.elems.word_cnt * 8);
			check(values__survey(v.elems.words, v.elems.word_cnt).words == v.elems.word_cnt);
			n += walk(b, &v.elems, nest + 1, v.present);
		}
	}
	check(present == ANY || top == present);
	return n;
}

static char printed[1 << 22];
static size_t printed_len;

static int to_printed(void *arg, const void *data, size_t len)
{
	(void)arg;
	check(printed_len + len < sizeof(printed));
	memcpy(printed + printed_len, data, len);
	printed_len += len;
	return 0;
}

/* Each of the keys, or none. */
static void check_arrays(const char *const keys[4])
{
	cJSON *doc;

	printed[printed_len] = '\0';
	doc = cJSON_Parse(printed);
	check(doc);
	for (int i = 1; i < 4; i++)
		check(cJSON_GetArraySize(cJSON_GetObjectItem(doc, keys[i])) ==
		      cJSON_GetArraySize(cJSON_GetObjectItem(doc, keys[0])));
	cJSON_Delete(doc);
	printed_len = 0;
}

static void print(const struct slice_values *sv)
{
	static const char *const chrome[] = { "Concrete Inputs", "Input type", "Input Strides",
					      "Input Dims" },
				 *const et[] = { "values", "shapes", "types", "strides" };
	static const struct session_keys no_keys;
	static const struct chrome_args_opts opts = { .inputs = true };
	const struct slice sl = { .name = "aten::x", .keys = &no_keys, .in = *sv };
	struct et_missing missing = { 0 };
	struct et_ids ids = { 0 };
	struct jsonw w;

	jsonw__init(&w, to_printed, NULL, 0);
	jsonw__begin_obj(&w);
	chrome_args__write(&w, &sl, &opts);
	jsonw__end_obj(&w);
	check(!jsonw__flush(&w));
	jsonw__free(&w);
	check_arrays(chrome);
	jsonw__init(&w, to_printed, NULL, 0);
	et_values__write(&w, sv, &no_keys, &ids, &missing);
	check(!jsonw__flush(&w));
	jsonw__free(&w);
	hashmap__clear(&ids.seen);
	check_arrays(et);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint32_t cnt = (uint32_t)(len / 8), sound;
	uint64_t *words = malloc((size_t)cnt * 8 + 1); /* its own end is the sanitizer's fence */
	struct bounds b = { (char *)words, (char *)(words + cnt) };
	struct slice_values sv = { .words = words, .word_cnt = cnt, .flags = VALUES_PRESENT };

	check(words);
	memcpy(words, data, (size_t)cnt * 8);
	walk(&b, &sv, 0, ANY);
	sound = values__survey(words, cnt).words;
	check(sound <= cnt && values__survey(words, sound).words == sound);
	sv.word_cnt = sound;
	check(walk(&b, &sv, 0, ANY) <= sound);
	print(&sv);
	free(words);
	return 0;
}

#ifndef FUZZ_WITH_LIBFUZZER

static void add_value(struct value_words *w, uint32_t nest)
{
	static const int64_t ints[8] = { 2, 3, 4, -1, 0, 7, 1, 1 };
	struct vw_tensor t = { .dtype = (uint8_t)(random() % 50),
			       .ndim = (uint8_t)(random() % 6),
			       .sizes = { 2, 3, 4, 5, 6 },
			       .flags = random() % 2 ? PTB_VAL_F_IDS : 0,
			       .no_strides = random() % 2 };
	uint16_t n;

	switch (random() % (nest < PTB_NEST_MAX ? 12 : 10)) {
	case 0:
		vw__int(w, random());
		break;
	case 1:
		vw__double(w, (double)random() / 7);
		break;
	case 2:
		vw__pending(w, (uint32_t)random() % 4);
		break;
	case 3:
		vw__string(w, "a text of some length");
		break;
	case 4:
		vw__ints(w, (uint32_t)random() % 8, ints);
		break;
	case 5:
		vw__bools(w, (uint32_t)random() % 64, (const uint8_t *)ints);
		break;
	case 6:
		vw__complex(w, 1, 2);
		break;
	case 7:
		vw__undefined(w, (uint64_t)random() % 2);
		break;
	case 8:
		vw__none(w);
		break;
	case 9:
		vw__tensor(w, &t);
		break;
	default:
		n = (uint16_t)(random() % 5);
		vw__list(w, (uint8_t)(PTB_VAL_LIST + random() % 4), n, n);
		while (n--)
			add_value(w, nest + 1);
	}
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 20000;
	static struct value_words w;

	srandom(argc > 2 ? (unsigned int)atol(argv[2]) : 1);
	for (long i = 0; i < n; i++) {
		int values = (int)(random() % 12), mutations = (int)(random() % 6);
		size_t len;

		w.cnt = 0;
		if (random() % 2)
			vw__state(&w, true, 1, 2, 3);
		while (values--)
			add_value(&w, 0);
		check(values__survey(w.words, w.cnt).words == w.cnt);
		len = (size_t)w.cnt * 8;
		while (mutations-- && len) {
			uint8_t *at = (uint8_t *)w.words + (size_t)random() % len;

			*at = (uint8_t)(random() % 2 ? random() : *at ^ 1 << random() % 8);
			if (random() % 8 == 0)
				len = (size_t)random() % len;
		}
		LLVMFuzzerTestOneInput((const uint8_t *)w.words, len);
	}
	printf("%ld payloads read\n", n);
	return 0;
}

#endif /* FUZZ_WITH_LIBFUZZER */
