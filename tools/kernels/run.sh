#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Tests on other kernels than this machine's: each boots in QEMU with this machine's files.
#
#   tools/kernels/run.sh [--kernel NAME]... [units|modes|all] [TEST...]
#
#   units    the C tests that depend on the kernel (seconds to minutes a kernel; no PyTorch)
#   modes    every mode of ptbpf on a training loop, and before Linux 5.15 the refusal (ten minutes or more a kernel)
#   all      both (default)
#   TEST     only these
#
# Kernels (default: all of them): 5.10, 6.1, 6.1-rt, 6.12, newest (Debian's sid), next (its experimental). They are downloaded
# into $PTBPF_ENV_DIR/kernels when they are not there; fetch.sh --again NAME gets a newer one of the same name.
#
# One result line PASS, FAIL or SKIP each; at the end a table, kernels by tests. What a guest left (console, dmesg, traces)
# is in $PTBPF_ENV_DIR/kernels/out. Run as root, after a build (in $PTBPF_BUILD, default build). $PTBPF_GUEST_*: see boot.sh.
set -uo pipefail
. "$(dirname "$0")/../env.sh"
. "$PTBPF_ROOT/tools/kernels/kernels.sh"

usage() { sed -n '3,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }

KERNELS=()
while [ $# -gt 0 ]; do
	case $1 in
	--help | -h)
		usage
		exit 0
		;;
	--kernel)
		[ $# -ge 2 ] || die "--kernel needs a name"
		KERNELS+=("$2")
		shift 2
		;;
	*) break ;;
	esac
done
WHAT=${1:-all}
[ $# -eq 0 ] || shift
case $WHAT in units | modes | all) ;; *) die "what is '$WHAT'? See tools/kernels/run.sh --help" ;; esac
[ ${#KERNELS[@]} -gt 0 ] || mapfile -t KERNELS < <(kernel_names)
need_root "tools/kernels/run.sh"
BUILD=${PTBPF_BUILD:-$PTBPF_ROOT/build}
[ -x "$BUILD/ptbpf" ] || die "no $BUILD/ptbpf: build first"
RESULTS=$(mktemp)
trap 'rm -f "$RESULTS"' EXIT

result() { # KERNEL and a line
	printf '%s %s.%s\n' "$2" "kernel-$1" "$3" | tee -a "$RESULTS"
}

# Runs a guest and puts the kernel's name into its result lines.
guest() { # KERNEL PART COMMAND...
	local kernel=$1 part=$2 out=$KERNELS_DIR/out/$1-$2 status line n=0
	shift 2
	rm -rf "$out"
	mkdir -p "$out"
	python3 "$PTBPF_ROOT/tools/kernels/units.py" list "$BUILD" >"$out/tests.json"
	"$PTBPF_ROOT/tools/kernels/boot.sh" "$kernel" "$out" "$@" >"$out/output" 2>&1
	status=$?
	while IFS= read -r line; do
		case $line in
		"PASS "* | "FAIL "* | "SKIP "*)
			result "$kernel" "${line%% *}" "${line#* }"
			n=$((n + 1))
			;;
		*) printf '%s\n' "$line" ;;
		esac
	done <"$out/output"
	if [ $n = 0 ] || [ $status = 125 ]; then
		result "$kernel" FAIL "$part: the guest ended without a result: $(tail -n 1 "$out/output")"
	fi
}

units() { # KERNEL
	# 5.10 is there for the refusal
	[ "$1" = 5.10 ] && return 0
	PTBPF_GUEST_LIMIT=${PTBPF_GUEST_LIMIT:-7200} guest "$1" units python3 tools/kernels/units.py run /run/out/tests.json "${TESTS[@]}"
}

modes() { # KERNEL
	local python
	python=$(venv_python "torch-$PTBPF_MAIN_TORCH")
	if [ ! -x "$python" ]; then
		result "$1" SKIP "modes: no environment with PyTorch $PTBPF_MAIN_TORCH (tools/setup.sh main)"
		return
	fi
	PTBPF=$BUILD/ptbpf PTBPF_PYTHON=$python PTBPF_DEADLINE=${PTBPF_DEADLINE:-900} PTBPF_GUEST_MIB=${PTBPF_GUEST_MIB:-5120} \
		PTBPF_GUEST_LIMIT=${PTBPF_GUEST_LIMIT:-7200} guest "$1" modes python3 tools/kernels/modes.py "${TESTS[@]}"
}

# Kernels by tests; a test that not every kernel has is "-" there.
table() {
	awk '{
		kind = $1; name = $2; sub(/:$/, "", name)
		kernel = name; sub(/^kernel-/, "", kernel); sub(/\.(unit|modes|refusal).*$/, "", kernel)
		test = substr(name, length("kernel-" kernel) + 2)
		if (!(kernel in seenk)) { seenk[kernel] = 1; kernels[++nk] = kernel }
		if (!(test in seent)) { seent[test] = 1; tests[++nt] = test; if (length(test) > width) width = length(test) }
		got[kernel, test] = kind
	} END {
		printf "\n%-*s", width, ""
		for (k = 1; k <= nk; k++) printf "  %-8s", kernels[k]
		printf "\n"
		for (t = 1; t <= nt; t++) {
			printf "%-*s", width, tests[t]
			for (k = 1; k <= nk; k++) printf "  %-8s", (kernels[k], tests[t]) in got ? got[kernels[k], tests[t]] : "-"
			printf "\n"
		}
	}' "$RESULTS"
}

TESTS=("$@")
for kernel in "${KERNELS[@]}"; do
	if ! "$PTBPF_ROOT/tools/kernels/fetch.sh" "$kernel" || ! kernel_complete "$kernel"; then
		result "$kernel" SKIP "$WHAT: $(cat "$KERNELS_DIR/$kernel.why" 2>/dev/null || echo "no such kernel")"
		continue
	fi
	note "kernel $kernel: $(cat "$KERNELS_DIR/$kernel/version")"
	[ "$WHAT" = modes ] || units "$kernel"
	[ "$WHAT" = units ] || modes "$kernel"
done
table
! grep -q '^FAIL' "$RESULTS"
