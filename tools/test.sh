#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Installs what the tests need, builds, runs them all. Every test prints one line PASS, FAIL or SKIP with its
# reason; the last line is the count. Fails when anything failed.
#
#   tools/test.sh [unit|torch|e2e|consumers|checks]...     only these parts; default all
set -uo pipefail
. "$(dirname "$0")/env.sh"
cd "$PTBPF_ROOT" || exit 1

RESULTS=$(mktemp)
trap 'rm -f "$RESULTS"' EXIT
PARTS=${*:-checks unit e2e torch consumers}
MAIN_PYTHON=$(venv_python "torch-$PTBPF_MAIN_TORCH")
export PTBPF=$PTBPF_ROOT/build/ptbpf PTBPF_PYTHON=$MAIN_PYTHON PYTHONDONTWRITEBYTECODE=1

result() { # KIND NAME [TEXT]
	printf '%s %s%s\n' "$1" "$2" "${3:+: $3}" | tee -a "$RESULTS"
}

# Runs a program that prints result lines; one that fails without any gets a line of its own.
suite() { # NAME command...
	local name=$1 out status=0
	shift
	out=$(mktemp)
	"$@" 2>&1 | tee "$out"
	status=${PIPESTATUS[0]}
	grep -E '^(PASS|FAIL|SKIP) ' "$out" >>"$RESULTS"
	if [ "$status" != 0 ] && ! grep -q '^FAIL ' "$out"; then
		result FAIL "$name" "ended with $status"
	elif ! grep -qE '^(PASS|FAIL|SKIP) ' "$out"; then
		result FAIL "$name" "printed no result"
	fi
	rm -f "$out"
}

build() { # DIR cmake-options...
	local dir=$1
	shift
	note "building $dir"
	cmake -S . -B "$dir" "$@" >"$RESULTS.build" 2>&1 && cmake --build "$dir" -j "$(nproc)" >>"$RESULTS.build" 2>&1
	local status=$?
	[ $status = 0 ] || tail -n 40 "$RESULTS.build" >&2
	rm -f "$RESULTS.build"
	return $status
}

part_checks() {
	local c
	for c in layers sizes docs; do
		suite "check_$c" python3 "tools/check_$c.py" "$PTBPF"
	done
}

part_unit() {
	suite unit python3 tools/ctest_results.py build optimized
	if build build-asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPTBPF_SANITIZE=ON; then
		suite unit-asan python3 tools/ctest_results.py build-asan sanitized
	else
		result FAIL build.sanitized
	fi
}

# The hundreds of attaches mostly wait for the kernel, so the other tests run beside them.
part_e2e() {
	local f log harm=tests/e2e/test_harm.py
	log=$(mktemp)
	suite "$(basename $harm .py)" "$MAIN_PYTHON" $harm >"$log" &
	for f in tests/e2e/test_*.py; do
		[ "$f" = $harm ] || suite "$(basename "$f" .py)" "$MAIN_PYTHON" "$f"
	done
	wait
	cat "$log"
	rm -f "$log"
}

# A leg of the matrix, or the reason why there is none.
leg() { # NAME PYTHON [options]
	local name=$1 python=$2
	shift 2
	if [ -e "$PTBPF_ENV_DIR/$name.why" ]; then
		result SKIP "torch.$name" "$(head -n 1 "$PTBPF_ENV_DIR/$name.why")"
	else
		suite "torch.$name" python3 tests/torch/run_leg.py "$python" "$name" "$@"
	fi
}

# Payloads that run with the agent on interpreters and torches beside the main one, which runs them all.
AGENT_SOME="elementwise backward custom_function exceptions annotations views_inplace strings lists_of_numbers results
	two_threads raising_threads thread_churn optimizers transformer script_unfused compile_eager compile_inductor"

# Two legs at a time: while the target of one is traced, the other compares, or torch alone runs.
part_torch() {
	local name agent=$PTBPF_ROOT/build/libptbpf_agent.so some logs
	logs=$(mktemp -d)
	suite torch.checklist "$MAIN_PYTHON" tests/torch/test_checklist.py
	suite torch.memory "$MAIN_PYTHON" tests/torch/test_memory_truth.py
	if env_complete "torch-$PTBPF_OLD_TORCH"; then
		PTBPF_PYTHON=$(venv_python "torch-$PTBPF_OLD_TORCH") suite "torch.memory-$PTBPF_OLD_TORCH" \
			"$MAIN_PYTHON" tests/torch/test_memory_truth.py
	fi
	suite torch.agent_stress python3 tests/torch/test_agent_stress.py --agent "$agent" \
		--haste build/tests/libagent_haste.so --dump build/tests/workloads/libagent_dump.so \
		--cfg build/tests/agent_cfg --python "$MAIN_PYTHON"
	# shellcheck disable=SC2086 # a list of words
	some="--agent $agent --agent-windows full $(printf -- '--agent-payload %s ' $AGENT_SOME)"
	for name in main old distribution chroot-trixie chroot-unstable; do
		[ "$(jobs -rp | wc -l)" -lt 2 ] || wait -n
		# shellcheck disable=SC2086
		case $name in
		main) leg "torch-$PTBPF_MAIN_TORCH" "$MAIN_PYTHON" --agent "$agent" --agent-windows names,full,held ;;
		old) leg "torch-$PTBPF_OLD_TORCH" "$(venv_python "torch-$PTBPF_OLD_TORCH")" $some ;;
		distribution) leg distribution /usr/bin/python3 $some ;;
		*) leg "$name" leg-python --chroot "$PTBPF_ENV_DIR/$name" $some ;;
		esac >"$logs/$name" 2>&1 &
	done
	wait
	for name in main old distribution chroot-trixie chroot-unstable; do
		cat "$logs/$name"
	done
	rm -rf "$logs"
}

part_consumers() {
	if [ -f tests/consumers/run.py ]; then
		suite consumers "$MAIN_PYTHON" tests/consumers/run.py
	fi
}

need_root "tools/test.sh"
tools/setup.sh legs || die "the main environment could not be installed"
if build build -DCMAKE_BUILD_TYPE=RelWithDebInfo; then
	result PASS build.optimized
	for part in $PARTS; do
		note "part $part"
		"part_$part"
	done
else
	result FAIL build.optimized
fi

count() { grep -c "^$1 " "$RESULTS"; }
failed=$(count FAIL)
if [ "$failed" != 0 ]; then
	printf '\nfailed:\n'
	grep '^FAIL ' "$RESULTS" | sed 's/^FAIL /  /'
fi
printf '%d passed, %d failed, %d skipped\n' "$(count PASS)" "$failed" "$(count SKIP)"
[ "$failed" = 0 ]
