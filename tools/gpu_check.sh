#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# GPU activities on a real GPU, held against torch.profiler: a table of verdicts. Needs a driver and a Python with
# PyTorch and CUDA; installs nothing, asks no network.
#
#   tools/gpu_check.sh [--build DIR] [options of gpu_check.py]   here, with what was built (default build/)
#   tools/gpu_check.sh --bundle DIR [--build DIR]                collects what the check needs, to be carried to another
#                                                                machine, where DIR/tools/gpu_check.sh is the check
#
# Exit: 0 all passed, 1 something failed, 2 no GPU or no PyTorch that can use it.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BUNDLE_MAX_KIB=$((64 * 1024))

say() { printf 'gpu_check: %s\n' "$*" >&2; }
die() {
	say "$1"
	exit "${2:-1}"
}

# The program and the libraries that it needs; in system/ the C library and its loader, for machines with an older one.
bundle() { # BUILD DIR
	local build=$1 dir=$2 lib f
	mkdir -p "$dir/lib/system" "$dir/schemas" "$dir/tools"
	for f in ptbpf libptbpf_agent.so tests/workloads/libagent_dump.so; do
		[ -e "$build/$f" ] || die "$build/$f is not built"
	done
	cp "$build/ptbpf" "$dir/lib/"
	cp "$build/libptbpf_agent.so" "$build/tests/workloads/libagent_dump.so" "$dir/lib/"
	strip --strip-unneeded "$dir"/lib/* 2>/dev/null || true
	ldd "$build/ptbpf" | while read -r lib; do
		f=$(printf '%s\n' "$lib" | grep -o '/[^ ]*' | head -n 1) || continue # the kernel's own has no file
		case ${f##*/} in
		ld-linux* | libc.so* | libm.so* | libgcc_s* | libstdc++*) cp -L "$f" "$dir/lib/system/" ;;
		*) cp -L "$f" "$dir/lib/" ;;
		esac
	done
	cp "$HERE"/gpu_check.sh "$HERE"/gpu_check*.py "$HERE"/validate_*.py "$HERE"/bundle_schemas.py "$dir/tools/"
	cp -r "$HERE/../schemas/formats" "$dir/schemas/"
	f=$(du -sk "$dir" | cut -f 1)
	[ "$f" -le "$BUNDLE_MAX_KIB" ] || die "the bundle has $f KiB, more than $BUNDLE_MAX_KIB"
	say "$dir: $f KiB; carry it to the machine with the GPU and run $(basename "$dir")/tools/gpu_check.sh"
}

can_use_gpu='import sys, torch; sys.exit(0 if torch.cuda.is_available() and torch.version.cuda else 3)'

# Pythons that may have PyTorch: the one that is asked for, those on the path, environments in usual places.
pythons() {
	local p
	[ -z "${PTBPF_PYTHON:-}" ] || printf '%s\n' "$PTBPF_PYTHON"
	[ -z "${VIRTUAL_ENV:-}" ] || printf '%s\n' "$VIRTUAL_ENV/bin/python"
	[ -z "${CONDA_PREFIX:-}" ] || printf '%s\n' "$CONDA_PREFIX/bin/python"
	for p in python3 python; do command -v "$p" || true; done
	for p in /opt/*/bin/python3 /opt/*/*/bin/python3 /usr/local/bin/python3* /usr/bin/python3* "$HOME"/*/bin/python3 \
		"$HOME"/.*/bin/python3 /venv/bin/python3 /root/*/bin/python3; do
		[ ! -x "$p" ] || printf '%s\n' "$p"
	done
}

# The first Python whose torch has a GPU; says what was found otherwise.
find_python() {
	local p found=
	while read -r p; do
		case $p in *-config | *config) continue ;; esac
		if timeout 120 "$p" -c "$can_use_gpu" >/dev/null 2>&1; then
			printf '%s\n' "$p"
			return 0
		elif timeout 60 "$p" -c 'import torch' >/dev/null 2>&1; then
			found="$found $p"
		fi
	done < <(pythons | awk '!seen[$0]++')
	[ -z "$found" ] || say "PyTorch without a usable GPU:$found"
	return 1
}

build=$HERE/../build
bundle_dir=''
rest=()
while [ $# -gt 0 ]; do
	case $1 in
	--build) build=${2:?} && shift 2 ;;
	--bundle) bundle_dir=${2:?} && shift 2 ;;
	-h | --help) sed -n '3,12s/^# \{0,1\}//p' "$0" && exit 0 ;;
	*) rest+=("$1") && shift ;;
	esac
done
if [ -n "$bundle_dir" ]; then
	bundle "$build" "$bundle_dir"
	exit 0
fi
lib=$(dirname "$HERE")/lib
if [ -e "$lib/libptbpf_agent.so" ]; then # we are the bundle
	ptbpf="env LD_LIBRARY_PATH=$lib $lib/ptbpf"
	if ! $ptbpf --version >/dev/null 2>&1; then
		ptbpf="$(echo "$lib"/system/ld-linux*) --library-path $lib:$lib/system $lib/ptbpf"
		say "this machine's C library is older than ptbpf's: ptbpf brings its own, and cannot use uprobe_multi links so"
	fi
	agent=$lib/libptbpf_agent.so dump=$lib/libagent_dump.so
else
	build=$(cd "$build" 2>/dev/null && pwd) || die "nothing is built; cmake -S . -B build && cmake --build build -j2"
	ptbpf=$build/ptbpf agent=$build/libptbpf_agent.so dump=$build/tests/workloads/libagent_dump.so
	for f in "$ptbpf" "$agent" "$dump"; do [ -e "$f" ] || die "$f is not built"; done
fi
if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null && [ ! -e /dev/dxg ]; then
	die "no NVIDIA GPU here (no /dev/nvidia*)" 2
fi
python=$(find_python) || die "no Python here has a PyTorch that can use the GPU (PTBPF_PYTHON=... names one)" 2
exec "$python" "$HERE/gpu_check.py" --ptbpf "$ptbpf" --agent "$agent" --dump "$dump" "${rest[@]}"
