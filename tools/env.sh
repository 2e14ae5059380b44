# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Sourced by the other scripts: where things are, and which PyTorch environments are complete.
# Environments live outside the tree and are kept; one is complete when it holds its stamp.

PTBPF_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PTBPF_ENV_DIR=${PTBPF_ENV_DIR:-/var/tmp/ptbpf-envs}
PTBPF_MAIN_TORCH=2.15.0 # the newest official wheel that the project was verified with
PTBPF_OLD_TORCH=2.5.1   # the last with the old string ABI
PTBPF_FRAMEWORKS="lightning==2.6.6 accelerate==1.15.0" # docs/frameworks.md is tested with these, and the main wheel
PTBPF_TITAN="torchtitan==0.3.0 spmd_types==0.2.3 tyro docstring_parser typeguard" # what its optimizers need
PTBPF_STAMP=.ptbpf-complete
export PTBPF_ENV_DIR DEBIAN_FRONTEND=noninteractive

note() { printf 'ptbpf: %s\n' "$*" >&2; }
die() {
	note "$*"
	exit 1
}

# What is in PTBPF_ENV_DIR is executed, by root too, and anybody can make a directory of that name in /var/tmp. So nobody else
# may own or change it, nor replace it by a link or by renaming what it is in.
env_check() {
	local dir=${PTBPF_ENV_DIR%/} mine
	mine=(\( -uid 0 -o -uid "$(id -u)" \))
	[ -e "$dir" ] || [ -L "$dir" ] || return 0
	[ -n "$(find "$dir" -maxdepth 0 -type d "${mine[@]}" ! -perm /022)" ] ||
		die "$dir is not used: it is a link, or another user owns it or can write to it; remove it, or set PTBPF_ENV_DIR"
	while dir=$(cd "$dir/.." && pwd -P) && [ "$dir" != / ]; do
		[ -n "$(find "$dir" -maxdepth 0 "${mine[@]}" \( ! -perm /022 -o -perm -1000 \))" ] ||
			die "$PTBPF_ENV_DIR is not used: another user can replace $dir; set PTBPF_ENV_DIR"
	done
}

env_complete() { [ -e "$PTBPF_ENV_DIR/$1/$PTBPF_STAMP" ]; }
env_stamp() { date -u +%Y-%m-%dT%H:%M:%SZ >"$PTBPF_ENV_DIR/$1/$PTBPF_STAMP"; }

# Interpreter of an environment that is a venv.
venv_python() { printf '%s/%s/bin/python\n' "$PTBPF_ENV_DIR" "$1"; }

# The Python whose torch an ordinary user has: the one that `python3` finds, else the main venv.
user_python() {
	if python3 -I -c 'import torch' >/dev/null 2>&1; then
		command -v python3
	else
		venv_python "torch-$PTBPF_MAIN_TORCH"
	fi
}

# Free GiB where the environments live.
env_free_gib() {
	df --output=avail -B1G "$PTBPF_ENV_DIR/." | tail -n 1 | tr -d ' '
}

need_root() {
	[ "$(id -u)" = 0 ] || die "$1 must be run as root: it installs packages and places kernel probes"
	mkdir -p -m 755 "$PTBPF_ENV_DIR"
	env_check
}

env_check
