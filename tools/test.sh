#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Installs what the tests need, builds, runs them all. Every test prints one line PASS, FAIL or SKIP with its
# reason; the last line is the count. Fails when anything failed.
#
#   tools/test.sh [--soak] [checks|unit|kernels|e2e|torch|consumers|package|fuzz]...
#
# Only these parts; default all but package and fuzz.
#
# --soak: the campaigns that take hours. Tests that count attaches, kills, injections or faults do all of them
# (PTBPF_SOAK), packages are built and tried in clean Debians, and each fuzzer runs for PTBPF_FUZZ_SECONDS (3600) with
# the corpus kept in $PTBPF_ENV_DIR/corpus.
set -uo pipefail
. "$(dirname "$0")/env.sh"
cd "$PTBPF_ROOT" || exit 1

RESULTS=$(mktemp)
LOGS=$(mktemp -d)
export PTBPF_TIMES=$LOGS/times
: >"$PTBPF_TIMES"
trap 'rm -rf "$RESULTS" "$LOGS"' EXIT
PTBPF_SOAK=
if [ "${1:-}" = --soak ]; then
	PTBPF_SOAK=1
	shift
fi
export PTBPF_SOAK
PARTS=${*:-checks unit kernels e2e torch consumers${PTBPF_SOAK:+ package fuzz}}
GROUPS_OF_PARTS=("checks unit kernels e2e" "consumers torch" package fuzz) # parts of a group run at once
for part in $PARTS; do
	[[ " ${GROUPS_OF_PARTS[*]} " == *" $part "* ]] || die "no part is called $part: ${GROUPS_OF_PARTS[*]}"
done
MAIN_PYTHON=$(venv_python "torch-$PTBPF_MAIN_TORCH")
export PTBPF=$PTBPF_ROOT/build/ptbpf PTBPF_PYTHON=$MAIN_PYTHON PYTHONDONTWRITEBYTECODE=1

result() { # KIND NAME [TEXT]
	printf '%s %s%s\n' "$1" "$2" "${3:+: $3}" | tee -a "$RESULTS"
}

# Runs a program that prints result lines, and prints them when it has ended; one that fails without any gets a line of
# its own. Into a file, not a pipe: a process that a test left behind would keep that open.
suite() { # NAME command...
	local name=$1 out status=0
	shift
	out=$(mktemp -p "$LOGS")
	"$@" >"$out" 2>&1 || status=$?
	(flock 9 && cat "$out" && grep -E '^(PASS|FAIL|SKIP) ' "$out" >>"$RESULTS") 9>"$LOGS/lock"
	if [ "$status" != 0 ] && ! grep -q '^FAIL ' "$out"; then
		result FAIL "$name" "ended with $status"
	elif ! grep -qE '^(PASS|FAIL|SKIP) ' "$out"; then
		result FAIL "$name" "printed no result"
	fi
	rm -f "$out"
}

# Runs a command beside others, at most AT_ONCE at a time: one more than processors, since tests wait for the kernel much
# of the time. `wait` waits for all.
AT_ONCE=$(($(nproc) + 1))
beside() {
	while [ "$(jobs -rp | wc -l)" -ge "$AT_ONCE" ]; do
		wait -n
	done
	"$@" &
}

build() { # DIR cmake-options...
	local dir=$1
	shift
	note "building $dir"
	cmake -S . -B "$dir" "$@" >"$LOGS/$dir.log" 2>&1 && cmake --build "$dir" -j "$(nproc)" >>"$LOGS/$dir.log" 2>&1
	local status=$?
	[ $status = 0 ] || tail -n 40 "$LOGS/$dir.log" >&2
	return $status
}

part_checks() {
	local c
	for c in layers sizes docs schemas; do
		suite "check_$c" python3 "tools/check_$c.py" "$PTBPF"
	done
}

unit_sanitized() {
	if build build-asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPTBPF_SANITIZE=ON; then
		suite unit-asan python3 tools/ctest_results.py build-asan sanitized 'unit|fuzz'
	else
		result FAIL build.sanitized
	fi
}

part_unit() {
	beside suite unit python3 tools/ctest_results.py build optimized
	beside unit_sanitized
}

# Debian 12's kernel in QEMU, without the tests that take minutes there; with --soak all kernels, and every mode on them.
KERNEL_UNITS="unit_probe_set unit_probe_text unit_probe_stale unit_probe_args unit_probe_kmem"
part_kernels() {
	if [ -n "$PTBPF_SOAK" ]; then
		wait # for a machine that does nothing else
		suite kernels tools/kernels/run.sh all
	else
		# shellcheck disable=SC2086
		PTBPF_GUEST_LIMIT=900 beside suite kernels tools/kernels/run.sh --kernel 6.1 units $KERNEL_UNITS
	fi
}

# The longest first.
part_e2e() {
	local f first="harm gpu agent inject faults memory"
	# shellcheck disable=SC2086 # a list of words
	first=$(printf 'tests/e2e/test_%s.py\n' $first)
	for f in $first $(printf '%s\n' tests/e2e/test_*.py | grep -vxF "$first"); do
		beside suite "$(basename "$f" .py)" "$MAIN_PYTHON" "$f"
	done
}

# A leg of the matrix, or the reason why there is none.
leg() { # NAME PYTHON [options]
	local name=$1 python=$2 begin=$SECONDS
	shift 2
	if [ -e "$PTBPF_ENV_DIR/$name.why" ]; then
		result SKIP "torch.$name" "$(head -n 1 "$PTBPF_ENV_DIR/$name.why")"
	else
		suite "torch.$name" python3 tests/torch/run_leg.py "$python" "$name" "$@"
		echo "$((SECONDS - begin)) torch.$name" >>"$PTBPF_TIMES"
	fi
}

# What interpreters and torches beside the main one run, which runs all: every kind of operator, thread, compiled region
# and value once. All of them run all payloads under a soak.
SOME="elementwise backward custom_function exceptions annotations views_inplace strings lists_of_numbers results
	two_threads raising_threads thread_churn optimizers transformer script_unfused compile_eager compile_inductor"

# As many at a time as there are processors: while the target of one leg is traced, another compares, or torch alone runs,
# which gives way. Operators by the thousand (--brief) are compared in every window on the main leg alone.
part_torch() {
	local AT_ONCE name agent=$PTBPF_ROOT/build/libptbpf_agent.so some
	AT_ONCE=$(nproc)
	# shellcheck disable=SC2086 # a list of words
	some="--brief --agent $agent --agent-windows full $(printf -- '--agent-payload %s ' $SOME)"
	# shellcheck disable=SC2086
	[ -n "$PTBPF_SOAK" ] || some+=" $(printf -- '--payload %s ' $SOME)"
	beside leg "torch-$PTBPF_MAIN_TORCH" "$MAIN_PYTHON" --agent "$agent" --agent-windows names,full,held
	# shellcheck disable=SC2086
	beside leg "torch-$PTBPF_OLD_TORCH" "$(venv_python "torch-$PTBPF_OLD_TORCH")" $some
	# shellcheck disable=SC2086
	beside leg distribution /usr/bin/python3 $some
	for name in chroot-trixie chroot-unstable; do
		# shellcheck disable=SC2086
		beside leg "$name" leg-python --chroot "$PTBPF_ENV_DIR/$name" $some
	done
	beside suite torch.checklist "$MAIN_PYTHON" tests/torch/test_checklist.py
	beside suite torch.dataflow "$MAIN_PYTHON" tests/torch/test_dataflow.py
	beside suite torch.memory "$MAIN_PYTHON" tests/torch/test_memory_truth.py
	if env_complete "torch-$PTBPF_OLD_TORCH"; then
		PTBPF_PYTHON=$(venv_python "torch-$PTBPF_OLD_TORCH") beside suite "torch.memory-$PTBPF_OLD_TORCH" \
			"$MAIN_PYTHON" tests/torch/test_memory_truth.py
	fi
	beside suite torch.agent_stress python3 tests/torch/test_agent_stress.py --agent "$agent" \
		--haste build/tests/libagent_haste.so --dump build/tests/workloads/libagent_dump.so \
		--cfg build/tests/agent_cfg --python "$MAIN_PYTHON"
	beside suite torch.unit python3 tools/ctest_results.py build optimized torch torch_agent_stress
}

part_consumers() {
	if [ -f tests/consumers/run.py ]; then
		beside suite consumers "$MAIN_PYTHON" tests/consumers/run.py
	fi
}

part_package() {
	suite package python3 tests/package/test_package.py
}

part_fuzz() {
	tools/setup.sh fuzz
	if build build-fuzz -DCMAKE_C_COMPILER=clang -DPTBPF_FUZZ=ON; then
		suite fuzz python3 tests/fuzz/run.py build-fuzz "$PTBPF_ENV_DIR/corpus" "${PTBPF_FUZZ_SECONDS:-3600}"
	else
		result FAIL build.fuzz
	fi
}

need_root "tools/test.sh"
tools/setup.sh legs || die "the main environment could not be installed"
if build build -DCMAKE_BUILD_TYPE=RelWithDebInfo; then
	result PASS build.optimized
	for group in "${GROUPS_OF_PARTS[@]}"; do
		begin=$SECONDS
		ran=
		for part in $group; do
			[[ " $PARTS " == *" $part "* ]] || continue
			note "part $part"
			"part_$part"
			ran+=" $part"
		done
		wait
		[ -z "$ran" ] || note "parts$ran took $((SECONDS - begin)) s"
	done
else
	result FAIL build.optimized
fi

printf '\nthe slowest, in seconds:\n'
sort -rn "$PTBPF_TIMES" | head -n 10 | sed 's/^/  /'

count() { grep -c "^$1 " "$RESULTS"; }
failed=$(count FAIL)
if [ "$failed" != 0 ]; then
	printf '\nfailed:\n'
	grep '^FAIL ' "$RESULTS" | sed 's/^FAIL /  /'
fi
printf '%d passed, %d failed, %d skipped\n' "$(count PASS)" "$failed" "$(count SKIP)"
[ "$failed" = 0 ]
