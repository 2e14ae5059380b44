#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The C code against .clang-format. Versions of clang-format differ in what they make of the same options, so it is
# Debian 12's that decides.
#
#   tools/check_format.sh            prints the lines that differ
#   tools/check_format.sh --fix      formats them
set -uo pipefail
. "$(dirname "$0")/env.sh"
cd "$PTBPF_ROOT" || exit 1
FORMAT=clang-format-14

mapfile -t files < <(git ls-files 'user/*.[ch]' 'bpf/*.[ch]' 'cupti_agent/*.[ch]' 'tests/*.[ch]')
if ! command -v $FORMAT >/dev/null; then
	echo "SKIP check.format: $FORMAT is not installed"
	exit 77
fi
if [ "${1:-}" = --fix ]; then
	exec $FORMAT -i "${files[@]}"
fi
if ! printf '%s\0' "${files[@]}" | xargs -0 -P"$(nproc)" -n50 $FORMAT --dry-run --Werror; then
	echo "FAIL check.format: tools/check_format.sh --fix formats them"
	exit 1
fi
echo "PASS check.format"
