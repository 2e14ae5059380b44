/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See step_events.h. */
#include "steps/step_events.h"

#include <string.h>

#include "base/containers.h"
#include "base/text.h"
#include "capture/capture.h"

#define SCOPE_USER 7 /* at::RecordScope */

bool step_rule__is_op(const char *name, const char *full)
{
	size_t len = strlen(name);

	return !strncmp(full, name, len) && (!full[len] || full[len] == '.');
}

/* An annotation of the wanted name, or of that kind: torch calls its own
 * "Optimizer.step#SGD.step". */
static void take_text(const struct step_rule *rule, const struct ptb_rec_hdr *h,
		      struct step_event *ev)
{
	static const char own[] = STEP_OWN_NAME;
	const char *want = rule->name_of(rule->arg, h->tgid), *text;
	size_t want_len = strlen(want);
	uint32_t len;

	text = record__well_formed(h) ? record__text(h, &len) : NULL;
	if (!text || !len)
		return;
	if (len >= sizeof(own) - 1 && !memcmp(text, own, sizeof(own) - 1))
		ev->what = STEP_OWN;
	else if (len >= want_len && !memcmp(text, want, want_len) &&
		 (len == want_len || text[want_len] == '#'))
		ev->what = STEP_MARK;
	ev->whole = siphash__bytes(text, len) | 1;
	if (ev->what != STEP_OTHER) /* steps that count themselves have one name: "train#" */
		len = (uint32_t)numbered__prefix(text, len);
	ev->text = siphash__bytes(text, len) | 1;
}

static void take_op(const struct step_rule *rule, struct step_event *ev)
{
	ev->what = STEP_MARK;
	ev->text = siphash__bytes(rule->name, strlen(rule->name)) | 1;
}

static bool is_marking_opdef(const struct step_rule *rule, const struct ptb_rec_hdr *h,
			     uint64_t opdef)
{
	const char *full = rule->opdef_name(rule->arg, h->tgid, opdef, h->ts_ns);

	return full && step_rule__is_op(rule->name, full);
}

/* A record of a function's probe. */
static bool frame_event(const struct step_rule *rule, const struct ptb_rec_hdr *h,
			struct step_event *ev)
{
	bool marks = false;

	if (!rule->ops)
		return false;
	ev->sp = ((const struct ptb_op_enter *)(const void *)h)->sp;
	ev->kind = STEP_AT;
	if (h->kind == PTB_REC_CATCH)
		return true;
	ev->id = rule->func_of(rule->arg, h->site, &marks);
	if (!ev->id)
		return false;
	switch (h->kind) {
	case PTB_REC_OP_EXIT:
		ev->kind = STEP_EXIT;
		break;
	case PTB_REC_OP_ENTER:
		if (marks)
			take_op(rule, ev);
		break;
	case PTB_REC_BOXED_ENTER:
		if (is_marking_opdef(rule, h,
				     ((const struct ptb_boxed_enter *)(const void *)h)->opdef))
			take_op(rule, ev);
		break;
	case PTB_REC_NAMED_ENTER:
		take_text(rule, h, ev);
		break;
	}
	if (ev->what != STEP_OTHER)
		ev->kind = STEP_ENTER;
	return true;
}

static bool rf_begin_event(const struct step_rule *rule, const struct ptb_rf_begin *r,
			   struct step_event *ev)
{
	ev->kind = STEP_BEGIN;
	ev->id = r->rf;
	if (!r->opdef) {
		take_text(rule, &r->h, ev);
		return ev->text && (ev->what != STEP_OTHER || r->scope == SCOPE_USER);
	}
	if (!rule->ops || !is_marking_opdef(rule, &r->h, r->opdef))
		return false;
	take_op(rule, ev);
	return true;
}

bool step_rule__event(const struct step_rule *rule, const struct ptb_rec_hdr *h,
		      struct step_event *ev)
{
	const struct ptb_scope_begin *sb;

	*ev = (struct step_event){ .ts_ns = h->ts_ns, .tgid = h->tgid, .tid = h->tid };
	switch (h->kind) {
	case PTB_REC_SCOPE_NAME:
		ev->kind = STEP_NAME;
		ev->sp = ((const struct ptb_scope_name *)(const void *)h)->sp;
		take_text(rule, h, ev);
		return true;
	case PTB_REC_SCOPE_BEGIN:
		sb = (const void *)h;
		ev->kind = STEP_BEGIN;
		ev->id = sb->handle;
		ev->sp = sb->sp;
		ev->before = sb->text_len || !sb->caller;
		take_text(rule, h, ev);
		return true;
	case PTB_REC_SCOPE_END:
		ev->kind = STEP_END;
		ev->id = ((const struct ptb_scope_end *)(const void *)h)->handle;
		ev->sp = ((const struct ptb_scope_end *)(const void *)h)->sp;
		return true;
	case PTB_REC_RF_BEGIN:
		return rf_begin_event(rule, (const void *)h, ev);
	case PTB_REC_RF_END:
		ev->kind = STEP_END;
		ev->id = ((const struct ptb_rf_end *)(const void *)h)->rf;
		return true;
	case PTB_REC_OP_ENTER:
	case PTB_REC_BOXED_ENTER:
	case PTB_REC_NAMED_ENTER:
	case PTB_REC_NODE_ENTER:
	case PTB_REC_OP_EXIT:
	case PTB_REC_ARGS_MORE:
	case PTB_REC_CATCH:
		return frame_event(rule, h, ev);
	case PTB_REC_EXIT:
		ev->kind = ((const struct ptb_task *)(const void *)h)->group_dead ?
				   STEP_PROCESS_END :
				   STEP_THREAD_END;
		return true;
	default:
		return false;
	}
}
