#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The first five minutes, as root on a fresh machine: installs what is needed, builds, starts an ordinary
# training loop, attaches to it by pid for three seconds, prints the table, leaves the trace here.
set -euo pipefail
. "$(dirname "$0")/env.sh"

TRACE=ptbpf-demo.pt.trace.json.gz
need_root "tools/demo.sh"
"$PTBPF_ROOT/tools/setup.sh" torch
note "building"
cmake -S "$PTBPF_ROOT" -B "$PTBPF_ROOT/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo >/dev/null
cmake --build "$PTBPF_ROOT/build" --target ptbpf -j "$(nproc)" >/dev/null

work=$(mktemp -d)
loop=
cleanup() {
	[ -z "$loop" ] || kill "$loop" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

python=$(user_python)
note "starting an ordinary training loop: $python tests/workloads/train_loop.py"
"$python" -u "$PTBPF_ROOT/tests/workloads/train_loop.py" >"$work/loop.out" 2>&1 &
loop=$!
for _ in $(seq 600); do
	grep -q '^step 20 ' "$work/loop.out" && break
	kill -0 "$loop" 2>/dev/null || die "the training loop ended: $(tail -n 3 "$work/loop.out")"
	sleep 0.1
done
grep -q '^step 20 ' "$work/loop.out" || die "the training loop did not reach its first steps within a minute"

note "ptbpf attach --pid $loop -d 3s"
status=0
"$PTBPF_ROOT/build/ptbpf" attach --pid "$loop" -d 3s -o "$work/demo.ptb" --trace "$TRACE" --row-limit 25 || status=$?
[ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
kill -0 "$loop" || die "the training loop did not survive: $(tail -n 3 "$work/loop.out")"
note "the training loop went on: $(tail -n 1 "$work/loop.out")"
note "trace: $PWD/$TRACE"
note "to view it, open https://ui.perfetto.dev or chrome://tracing and load that file"
exit "$status"
