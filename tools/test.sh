#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Installs what the tests need, builds, runs them all with CTest and pytest. Prints at the end a line PASS, FAIL or SKIP for each
# test, what takes how long, and the count. Fails when anything failed.
#
#   tools/test.sh [--all|--soak] [checks|unit|kernels|e2e|torch|consumers|fuzz|package]...
#
# Only these parts; default all, without --soak all but fuzz.
#
# Of the tests that take minutes on one subject, or need a guest, a chroot or another environment than the main one, a quarter runs
# each time (turn() in tests/CMakeLists.txt): which one the hash of the commit decides, and it is printed.
#
# --all: all four quarters.
# --soak: the campaigns that take hours. Tests that count attaches, kills, injections or faults do all of them
# (PTBPF_SOAK), Debian packages are built and tried in clean Debians, the static program in other distributions, and each fuzzer
# runs for PTBPF_FUZZ_SECONDS (3600) with the corpus kept in $PTBPF_ENV_DIR/corpus.
# $PTBPF_BUILD_DIR: where to build (build).
set -uo pipefail
. "$(dirname "$0")/env.sh"
cd "$PTBPF_ROOT" || exit 1

SOAK=OFF TURN=
case ${1:-} in
--soak) SOAK=ON ;;
--all) ;;
--help) sed -n '3,/^set /s/^# \?//p' "$0"; exit ;;
--*) die "no option is called $1: --all --soak" ;;
*) TURN=$((0x$(git rev-parse HEAD 2>/dev/null | cut -c1-4 | grep . || echo 0) % 4)) ;;
esac
case ${1:-} in --*) shift ;; esac
BUILD=$PTBPF_ROOT/${PTBPF_BUILD_DIR:-build}
LABELS=
for part in ${*:-checks unit kernels e2e torch consumers package $([ $SOAK = OFF ] || echo fuzz)}; do
	case $part in
	unit) LABELS+="|unit|sanitized" ;;
	checks | kernels | e2e | torch | consumers | fuzz | package) LABELS+="|$part" ;;
	*) die "no part is called $part: checks unit kernels e2e torch consumers fuzz package" ;;
	esac
done

need_root "tools/test.sh"
WITHOUT=
if [ "$TURN" ]; then
	note "this run has turn $TURN of the four in tests/CMakeLists.txt; --all runs all of them"
	export PTBPF_TURN=$TURN
	WITHOUT="-LE ^turn[^$TURN]\$"
fi
tools/setup.sh legs || die "the main environment could not be installed"
note "building $BUILD"
log=$(mktemp)
if ! { cmake -S . -B "$BUILD" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPTBPF_SOAK=$SOAK && cmake --build "$BUILD" -j "$(nproc)"; } >"$log" 2>&1; then
	tail -n 40 "$log"
	printf 'FAIL build\n0 passed, 1 failed, 0 skipped\n'
	exit 1
fi
rm -rf "$log" "$BUILD/junit"
mkdir -p "$BUILD/junit"
# Twice as many at once as there are processors: tests wait for the kernel most of the time.
# shellcheck disable=SC2086 # none or two words
ctest --test-dir "$BUILD" $WITHOUT -L "^(${LABELS#|})\$" -j $((2 * $(nproc))) --no-tests=error --output-on-failure \
	--output-junit "$BUILD/junit/ctest.xml" --test-output-size-passed 10000000 --test-output-size-failed 10000000
python3 tools/test_summary.py "$BUILD/junit"
