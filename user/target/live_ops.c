/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The dispatcher's table of operators, read from outside a live process: c10::Dispatcher starts
 * with std::list<OperatorDef> (aten/src/ATen/core/dispatch/Dispatcher.h), a node is {next, prev,
 * OperatorDef} and OperatorDef starts with the OperatorName {std::string name, overload_name}. The
 * process goes on registering meanwhile: a list whose links do not agree is read again.
 */
#define LOG_DOMAIN "live_ops"
#include "target/torch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "target/proc.h"

#define NAME_SZ_MAX 512u /* torch's own have up to 60, custom operators' are people's choice */
#define WALK_TRIES 5
#define READ_TRIES 3
#define NEWEST_MAX 64u
#define WINDOW 16384u /* more than any OperatorDef yet: 6 KiB */
#define UNOBSERVED_MAX 30u
#define KNOWN_MIN 3u /* so many of the operators below must exist */

/* {next, prev} and the operator's two strings; with the old string ABI those are two pointers. */
struct node {
	uint64_t next, prev;
	uint64_t words[8];
};

struct raw_str {
	uint64_t text, len;
	bool ok;
};

struct raw_op {
	uint64_t opdef;
	struct raw_str part[2]; /* name, overload */
};

struct raw_ops {
	struct raw_op *items;
	uint32_t cnt, cap;
};

static void set_parts(struct raw_op *op, const struct node *node, bool old_abi)
{
	for (uint32_t i = 0; i < 2; i++) {
		op->part[i].text = node->words[old_abi ? i : i * 4];
		op->part[i].len = old_abi ? 0 : node->words[i * 4 + 1];
		op->part[i].ok = true;
	}
}

static void add_raw(struct raw_ops *ops, uint64_t at, const struct node *node, bool old_abi)
{
	struct raw_op op = { .opdef = at + 16 };

	set_parts(&op, node, old_abi);
	vec_push(ops->items, ops->cnt, ops->cap, op);
}

/*
 * One attempt, from the list's beginning to its end; with `seen` from its end, where operators are
 * added, to one that is known. -EAGAIN: the links do not agree, the list is being changed.
 */
static int walk_list(pid_t pid, uint64_t head, bool old_abi, const struct live_ops_seen *seen,
		     struct raw_ops *ops)
{
	size_t want = 16 + (old_abi ? 16u : 64u);
	uint64_t at = head, before;
	struct node node;
	int err = remote__read(pid, head, &node, 16);

	ops->cnt = 0;
	while (!err) {
		before = at;
		at = seen ? node.prev : node.next;
		if (at == head || (seen && seen->known(seen->arg, at + 16)))
			return 0;
		if (ops->cnt == (seen ? NEWEST_MAX : LIMIT_LIVE_OPS))
			return -E2BIG;
		err = remote__read(pid, at, &node, want);
		if (err == -EFAULT || (!err && (seen ? node.next : node.prev) != before))
			return -EAGAIN;
		if (!err)
			add_raw(ops, at, &node, old_abi);
	}
	return err;
}

/* Old string ABI: the length precedes the text (bits/cow_string.h, _Rep {length, cap, refs}). */
static int read_lengths(pid_t pid, struct raw_ops *ops, struct remote_piece *pieces)
{
	int err;

	for (uint32_t i = 0; i < ops->cnt * 2; i++) {
		struct raw_str *s = &ops->items[i / 2].part[i % 2];

		pieces[i].addr = s->text - 24;
		pieces[i].buf = &s->len;
		pieces[i].len = sizeof(s->len);
	}
	err = remote__read_pieces(pid, pieces, ops->cnt * 2);
	for (uint32_t i = 0; !err && i < ops->cnt * 2; i++)
		ops->items[i / 2].part[i % 2].ok = pieces[i].ok;
	return err;
}

static bool is_op_name(const char *s)
{
	const char *p;

	for (p = s; *p; p++)
		if (*p <= ' ' || *p > '~')
			return false;
	return strstr(s, "::") && s[0] != ':';
}

/* "name" or "name.overload" in one allocation; the two texts are read into it by pieces[0], [1]. */
static char *name_buf(const struct raw_op *op, struct remote_piece *pieces)
{
	const struct raw_str *name = &op->part[0], *over = &op->part[1];
	char *buf;

	pieces[0].len = pieces[1].len = 0;
	if (!name->ok || !over->ok || !name->len || name->len > NAME_SZ_MAX ||
	    over->len > NAME_SZ_MAX)
		return xcalloc(1, 1);
	buf = xcalloc(1, name->len + 1 + over->len + 1);
	pieces[0].addr = name->text;
	pieces[0].buf = buf;
	pieces[0].len = (uint32_t)name->len;
	pieces[1].addr = over->text;
	pieces[1].buf = buf + name->len + 1;
	pieces[1].len = (uint32_t)over->len;
	return buf;
}

/* Turns the raw list into names; operators without a plausible one are left out and counted. */
static int read_names(pid_t pid, struct raw_ops *ops, struct remote_piece *pieces,
		      struct live_ops *out, uint32_t *bad)
{
	int err;

	for (uint32_t i = 0; i < ops->cnt; i++, out->cnt++) {
		out->ops[i].opdef = ops->items[i].opdef;
		out->ops[i].name = name_buf(&ops->items[i], &pieces[2 * i]);
	}
	err = remote__read_pieces(pid, pieces, ops->cnt * 2);
	if (err)
		return err;
	*bad = 0;
	for (uint32_t i = 0; i < ops->cnt; i++) {
		char *name = out->ops[i].name;

		if (pieces[2 * i + 1].len)
			name[pieces[2 * i].len] = '.';
		if (pieces[2 * i].ok && pieces[2 * i + 1].ok && is_op_name(name)) {
			out->ops[i - *bad] = out->ops[i];
			continue;
		}
		free(name);
		++*bad;
	}
	out->cnt -= *bad;
	return 0;
}

static int name_all(pid_t pid, bool old_abi, struct raw_ops *raw, struct live_ops *out,
		    uint32_t *bad)
{
	struct remote_piece *pieces = xcalloc((size_t)raw->cnt * 2, sizeof(*pieces));
	int err;

	out->ops = xcalloc(raw->cnt, sizeof(*out->ops));
	err = 0;
	if (old_abi)
		err = read_lengths(pid, raw, pieces);
	if (!err)
		err = read_names(pid, raw, pieces, out, bad);
	free(pieces);
	return err;
}

static int read_table(pid_t pid, uint64_t head, bool old_abi, struct raw_ops *raw,
		      struct live_ops *out, uint32_t *bad)
{
	int err, tries = 0;

	do {
		err = walk_list(pid, head, old_abi, NULL, raw);
	} while (err == -EAGAIN && ++tries < WALK_TRIES);
	if (!err && !raw->cnt)
		err = -ENOENT;
	return err ? err : name_all(pid, old_abi, raw, out, bad);
}

/* ---- which operators torch's profiler never records ---- */

/*
 * Finds OperatorEntry::is_observed_ without knowing its offset, which moves with every dispatch key
 * (3936, 4752, 6040 in three versions). Every operator's OperatorDef is laid over every other's;
 * the flag is the byte that is 0 or 1 in all of them, 0 in those operators that have always been on
 * torch's list of unobserved ones (aten/src/ATen/core/dispatch/ObservedOperators.cpp) and 1 in all
 * others but a few. One byte must remain, or several that say the same; else nothing is claimed.
 */

static const char *const always_unobserved_ops[] = {
	"aten::is_leaf",
	"aten::_version",
	"aten::output_nr",
	"profiler::_record_function_exit",
	"profiler::_record_function_enter_new",
};

struct candidate {
	bool dead;
	uint32_t zeros;
	uint64_t who; /* mixes the indexes of the operators that have 0 here */
};

/* The operator's base name, by which torch finds it: an overload does not matter. */
static bool is_always_unobserved(const char *name)
{
	size_t len = strcspn(name, ".");

	for (size_t i = 0; i < sizeof(always_unobserved_ops) / sizeof(always_unobserved_ops[0]);
	     i++)
		if (strlen(always_unobserved_ops[i]) == len &&
		    !memcmp(name, always_unobserved_ops[i], len))
			return true;
	return false;
}

static uint64_t hash_index(uint64_t v)
{
	v = (v ^ v >> 33) * 0xff51afd7ed558ccdULL;
	v = (v ^ v >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return v ^ v >> 33;
}

/* Lays one operator's bytes [lo, hi) over the candidates. */
static void overlay_operator(struct candidate *cands, uint32_t lo, uint32_t hi,
			     const uint8_t *bytes, uint32_t idx, bool known)
{
	for (uint32_t off = lo; off < hi; off++) {
		struct candidate *c = &cands[off];
		uint8_t v = bytes[off - lo];

		if (c->dead)
			continue;
		if (v > 1 || (known && v)) {
			c->dead = true;
		} else if (!v) {
			c->who ^= hash_index(idx + 1);
			c->dead = ++c->zeros > UNOBSERVED_MAX;
		}
	}
}

/* Narrows [*lo, *hi) to the living candidates; false: none is left. */
static bool narrow_window(const struct candidate *cands, uint32_t *lo, uint32_t *hi)
{
	while (*lo < *hi && cands[*lo].dead)
		++*lo;
	while (*lo < *hi && cands[*hi - 1].dead)
		--*hi;
	return *lo < *hi;
}

/* Reads the operators that must have 0 there, or all others, and lays them over the candidates;
 * false: none is left. */
static bool overlay_some(pid_t pid, const struct live_ops *lo, bool known, struct candidate *cands,
			 uint8_t *bytes, uint32_t range[2])
{
	for (uint32_t i = 0; i < lo->cnt; i++) {
		ssize_t n;

		if (is_always_unobserved(lo->ops[i].name) != known)
			continue;
		n = remote__read_some(pid, lo->ops[i].opdef + range[0], bytes, range[1] - range[0]);
		if (n <= 0)
			return false;
		/* beyond the heap's end there is no OperatorDef either */
		range[1] = range[0] + (uint32_t)n;
		overlay_operator(cands, range[0], range[1], bytes, i, known);
		if (!narrow_window(cands, &range[0], &range[1]))
			return false;
	}
	return true;
}

/* Reads all operators; the offset of the flag or 0. `known`: how many must have 0; they come first,
 * so that little is left to be read of the others. */
static uint32_t locate_observed(pid_t pid, const struct live_ops *lo, struct candidate *cands,
				uint8_t *bytes, uint32_t known)
{
	uint32_t range[2] = { 0, WINDOW }, from, to, found = 0;

	if (!overlay_some(pid, lo, true, cands, bytes, range) ||
	    !overlay_some(pid, lo, false, cands, bytes, range))
		return 0;
	from = range[0];
	to = range[1];
	for (uint32_t off = from; off < to; off++) {
		if (cands[off].dead || cands[off].zeros < known)
			continue;
		if (found && cands[off].who != cands[found].who) {
			pr_debug("is_observed_: offsets %u and %u disagree", found, off);
			return 0;
		}
		if (!found)
			found = off;
	}
	return found;
}

/* Reads the flag of every operator. */
static bool read_observed_flags(pid_t pid, struct live_ops *lo, uint32_t off, uint8_t *flags)
{
	struct remote_piece *pieces = xcalloc(lo->cnt, sizeof(*pieces));
	bool ok;

	for (uint32_t i = 0; i < lo->cnt; i++) {
		pieces[i].addr = lo->ops[i].opdef + off;
		pieces[i].buf = &flags[i];
		pieces[i].len = 1;
	}
	ok = !remote__read_pieces(pid, pieces, lo->cnt);
	for (uint32_t i = 0; i < lo->cnt && ok; i++)
		ok = pieces[i].ok && flags[i] <= 1;
	for (uint32_t i = 0; i < lo->cnt && ok; i++)
		lo->ops[i].unobserved = !flags[i];
	free(pieces);
	return ok;
}

static void read_observed(pid_t pid, struct live_ops *lo, uint32_t off)
{
	uint8_t *flags = xcalloc(lo->cnt, 1);

	lo->observed_known = off && read_observed_flags(pid, lo, off, flags);
	lo->observed_off = lo->observed_known ? off : 0;
	free(flags);
}

/* The flag where another process with the same libraries had it, if it says there what it must
 * say. */
static bool try_observed(pid_t pid, struct live_ops *lo, uint32_t off)
{
	uint32_t known = 0, unobserved = 0;
	bool right;

	read_observed(pid, lo, off);
	right = lo->observed_known;
	for (uint32_t i = 0; i < lo->cnt && right; i++) {
		bool always = is_always_unobserved(lo->ops[i].name);

		known += always;
		unobserved += lo->ops[i].unobserved;
		right = lo->ops[i].unobserved || !always;
	}
	if (right && known >= KNOWN_MIN && unobserved <= UNOBSERVED_MAX)
		return true;
	for (uint32_t i = 0; i < lo->cnt; i++)
		lo->ops[i].unobserved = false;
	return false;
}

static void find_observed(pid_t pid, struct live_ops *lo)
{
	struct candidate *cands = xcalloc(WINDOW, sizeof(*cands));
	uint8_t *bytes = xmalloc(lo->cnt > WINDOW ? lo->cnt : WINDOW);
	uint32_t off = 0, known = 0;

	for (uint32_t i = 0; i < lo->cnt; i++)
		known += is_always_unobserved(lo->ops[i].name);
	if (known >= KNOWN_MIN && lo->cnt > 4 * UNOBSERVED_MAX)
		off = locate_observed(pid, lo, cands, bytes, known);
	lo->observed_known = off && read_observed_flags(pid, lo, off, bytes);
	lo->observed_off = lo->observed_known ? off : 0;
	if (lo->observed_known)
		pr_debug("is_observed_ at %u, %u operators unobserved", off, cands[off].zeros);
	else
		pr_debug("is_observed_ not found among %u operators", lo->cnt);
	free(cands);
	free(bytes);
}

/* ---- the table ---- */

/* The loader binds the unique object to one of the copies; the others stay 0. */
static uint64_t find_dispatcher(pid_t pid, const uint64_t *singletons, uint32_t cnt)
{
	uint64_t addr;

	for (uint32_t i = 0; i < cnt; i++)
		if (singletons[i] && !remote__read(pid, singletons[i], &addr, sizeof(addr)) && addr)
			return addr;
	return 0;
}

/* Reads everything once. *bad: operators that were left out. */
static int read_once(pid_t pid, uint64_t head, bool old_abi, uint32_t observed_off,
		     struct live_ops *out, uint32_t *bad)
{
	struct raw_ops raw = { 0 };
	int err = read_table(pid, head, old_abi, &raw, out, bad);

	free(raw.items);
	if (!err && *bad > out->cnt)
		err = -EBADMSG; /* another layout than expected */
	if (err)
		live_ops__free(out);
	else if (!try_observed(pid, out, observed_off))
		find_observed(pid, out);
	return err;
}

int live_ops__read(pid_t pid, const uint64_t *singletons, uint32_t cnt, bool old_string_abi,
		   uint32_t observed_off, struct live_ops *out)
{
	uint64_t head = find_dispatcher(pid, singletons, cnt);
	uint32_t bad = 0, tries = 0;
	int err;

	memset(out, 0, sizeof(*out));
	if (!head) {
		pr_debug("process %d: no operator dispatcher found", pid);
		return -ENOENT;
	}
	do { /* an operator that was freed meanwhile is not in the next reading */
		live_ops__free(out);
		err = read_once(pid, head, old_string_abi, observed_off, out, &bad);
	} while (!err && (bad || !out->observed_known) && ++tries < READ_TRIES);
	if (err == -EAGAIN)
		pr_debug("process %d is registering operators", pid);
	else if (err)
		pr_warn("cannot read the operator table of process %d: %s", pid, errstr(err));
	else if (bad)
		pr_warn("process %d: %u of %u operators have no readable name", pid, bad,
			bad + out->cnt);
	return err;
}

int live_ops__tail(pid_t pid, const uint64_t *singletons, uint32_t cnt, uint64_t *tail)
{
	uint64_t head = find_dispatcher(pid, singletons, cnt), links[2];
	int err = head ? remote__read(pid, head, links, sizeof(links)) : -ENOENT;

	*tail = err ? 0 : links[1];
	return err;
}

int live_ops__newest(pid_t pid, const uint64_t *singletons, uint32_t cnt,
		     const struct live_ops_seen *seen, struct live_ops *out)
{
	uint64_t head = find_dispatcher(pid, singletons, cnt);
	struct raw_ops raw = { 0 };
	uint32_t bad = 0;
	int err;

	memset(out, 0, sizeof(*out));
	err = head ? walk_list(pid, head, seen->old_string_abi, seen, &raw) : -ENOENT;
	if (!err && raw.cnt)
		err = name_all(pid, seen->old_string_abi, &raw, out, &bad);
	free(raw.items);
	if (!err && bad)
		err = -EAGAIN;
	if (err)
		live_ops__free(out);
	else if (out->cnt)
		read_observed(pid, out, seen->observed_off);
	return err;
}

void live_ops__free(struct live_ops *lo)
{
	for (uint32_t i = 0; i < lo->cnt; i++)
		free(lo->ops[i].name);
	free(lo->ops);
	memset(lo, 0, sizeof(*lo));
}

int live_ops__name_at(pid_t pid, uint64_t opdef, bool old_string_abi, char *buf, size_t cap)
{
	char over[NAME_SZ_MAX];
	size_t len;
	int err;

	err = remote__read_string(pid, opdef, old_string_abi, buf, cap);
	if (err)
		return err;
	err = remote__read_string(pid, opdef + (old_string_abi ? 8 : 32), old_string_abi, over,
				  sizeof(over));
	if (err)
		return err;
	len = strlen(buf);
	if (*over) {
		if (len + 1 + strlen(over) >= cap)
			return -ENAMETOOLONG;
		buf[len] = '.';
		strcpy(buf + len + 1, over);
	}
	return is_op_name(buf) ? 0 : -EBADMSG;
}
