/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Streaming JSON output into a sink with a buffer: knows escaping and commas, nothing else. Texts
 * of any bytes become valid UTF-8 JSON (an invalid byte XX is written as \u00XX), and what a
 * terminal would not show as it is (base/text.h) is written as \uXXXX. Separators are ": " and ", "
 * because one consumer needs the blank (formats: HTA's rank expression).
 */
#ifndef BASE_JSONW_H
#define BASE_JSONW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int (*jsonw_out)(void *arg, const void *data, size_t len); /* 0 or negative errno */

/*
 * What a document consists of, for who makes something else of it than text. TEXT is what there is
 * so far of a string or of the caller's own JSON: pieces go on with it until another token comes.
 */
struct jsonw_token {
	enum {
		JSONW_TOKEN_BEGIN_OBJ,
		JSONW_TOKEN_BEGIN_ARR,
		JSONW_TOKEN_END, /* of either */
		JSONW_TOKEN_KEY,
		JSONW_TOKEN_STR,
		JSONW_TOKEN_TEXT,
		JSONW_TOKEN_PIECE,
		JSONW_TOKEN_U64,
		JSONW_TOKEN_I64,
		JSONW_TOKEN_BOOL, /* u */
		JSONW_TOKEN_US,   /* u, in ns */
		JSONW_TOKEN_DOUBLE,
		JSONW_TOKEN_NULL,
	} kind;
	const char *text; /* until the call returns; a key's until its value comes */
	size_t len;
	union {
		uint64_t u;
		int64_t i;
		double d;
	};
};
typedef void (*jsonw_take)(void *arg, const struct jsonw_token *t);

struct jsonw {
	jsonw_out out;
	void *arg;
	jsonw_take take; /* not NULL: gets all instead, with take_arg */
	void *take_arg;
	char *buf;
	size_t len, cap;
	int err;        /* first error; later calls do nothing */
	uint32_t depth; /* open objects and arrays */
	uint64_t comma; /* bit per depth: a value precedes */
	bool after_key;
	bool line; /* the next separator ends the line */
	struct jsonw_double {
		double v;
		char text[32]; /* "": none yet */
	} doubles[64];         /* written before, by a hash: the same few come again and again */
};

#define JSONW_DEPTH_MAX 60

/* Sinks. arg is a FILE *. */
int jsonw__to_stream(void *arg, const void *data, size_t len);
/* arg is a struct jsonw_text: text that is always NUL-terminated; -E2BIG for what does not fit. */
struct jsonw_text {
	char text[16384];
	size_t len;
};
int jsonw__to_text(void *arg, const void *data, size_t len);
/* arg is a struct jsonw_memory, zeroed: text of any length, for jsonw__take(). */
struct jsonw_memory {
	char *text; /* NUL-terminated */
	size_t len;
};
int jsonw__to_memory(void *arg, const void *data, size_t len);

void jsonw__init(struct jsonw *w, jsonw_out out, void *arg, size_t buf_sz);
int jsonw__flush(struct jsonw *w); /* first error or 0 */
void jsonw__free(struct jsonw *w); /* does not flush */
/* Ends a document in memory and frees the writer. The caller frees the text. */
char *jsonw__take(struct jsonw *w, struct jsonw_memory *m);

void jsonw__begin_obj(struct jsonw *w);
void jsonw__begin_row(struct jsonw *w); /* an object on a line of its own */
void jsonw__end_obj(struct jsonw *w);
void jsonw__begin_arr(struct jsonw *w);
void jsonw__end_arr(struct jsonw *w);
void jsonw__key(struct jsonw *w, const char *key);
/* The same for a key that is a literal without characters to escape, at less cost: millions of
 * events pay for it. */
#define JSONW_KEY(w, key) jsonw__key_lit(w, "\"" key "\": ", sizeof(key) + 3)
void jsonw__key_lit(struct jsonw *w, const char *quoted, size_t len);
/* Such a key with its value, or with the object or array that it opens. */
#define JSONW_STR(w, key, text) (JSONW_KEY(w, key), jsonw__str(w, text))
#define JSONW_U64(w, key, v) (JSONW_KEY(w, key), jsonw__u64(w, v))
#define JSONW_I64(w, key, v) (JSONW_KEY(w, key), jsonw__i64(w, v))
#define JSONW_BOOL(w, key, v) (JSONW_KEY(w, key), jsonw__bool(w, v))
#define JSONW_DOUBLE(w, key, v) (JSONW_KEY(w, key), jsonw__double(w, v))
#define JSONW_US(w, key, ns) (JSONW_KEY(w, key), jsonw__us(w, ns))
#define JSONW_OBJ(w, key) (JSONW_KEY(w, key), jsonw__begin_obj(w))
#define JSONW_ARR(w, key) (JSONW_KEY(w, key), jsonw__begin_arr(w))
void jsonw__str(struct jsonw *w, const char *text); /* NULL: the empty one */
/* A string in pieces of any bytes, also zeroes; a UTF-8 sequence must not be split between two. */
void jsonw__str_begin(struct jsonw *w);
void jsonw__str_put(struct jsonw *w, const char *text, size_t len);
void jsonw__str_end(struct jsonw *w);
void jsonw__u64(struct jsonw *w, uint64_t v);
void jsonw__i64(struct jsonw *w, int64_t v);
void jsonw__bool(struct jsonw *w, bool v);
void jsonw__null(struct jsonw *w);
/* Nanoseconds as microseconds with exactly three decimals: 1234567 -> 1234.567 */
void jsonw__us(struct jsonw *w, uint64_t ns);
void jsonw__double(struct jsonw *w, double v); /* shortest exact form; NaN, inf as null */
/* A value that is JSON already (metadata); the caller answers for its validity. */
void jsonw__raw(struct jsonw *w, const char *json);
void jsonw__raw_n(struct jsonw *w, const char *json, size_t len);
/* Goes on with the value that was written last, without a separator: the caller's own JSON. */
void jsonw__more(struct jsonw *w, const char *json, size_t len);
void jsonw__newline(struct jsonw *w); /* layout only */
/* Layout only: the next key or element of the open object or array begins a line. */
void jsonw__break(struct jsonw *w);

#endif /* BASE_JSONW_H */
