#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What only tools/test.sh --soak runs can start: its two builds can be configured, CTest and pytest find its tests.
#
#   tools/check_soak.sh
set -e
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

configure() { # NAME option...
	name=$1
	shift
	cmake -S . -B "$dir/$name" "$@" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }
}

expect() { # TEXT in the last log
	grep -q "$1" "$dir/log" || { cat "$dir/log" && echo "not found: $1" && exit 1; }
}

configure soak -DPTBPF_SOAK=ON
ctest --test-dir "$dir/soak" -N >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }
for test in kernels package fuzz_campaign sanitized_probe_set; do
	expect " $test\$"
done
configure fuzz -DCMAKE_C_COMPILER=clang -DPTBPF_FUZZ=ON
cmake --build "$dir/fuzz" --target help >"$dir/log"
expect fuzzers
pytest=$(command -v pytest-3 || command -v pytest) || { echo "skip: no pytest" && exit 77; }
PTBPF_SOAK=1 "$pytest" -p no:cacheprovider --collect-only -q -m soak tests/e2e tests/package >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }
expect "test_.*::test_"
