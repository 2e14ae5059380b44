#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The life of the packages in a clean Debian, in whose chroot it runs as root: installed, used, purged.
#
#   check.sh DIR [TORCH]     packages and a workload are in DIR, PyTorch for this Debian's Python is in TORCH
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
DIR=$1 TORCH=${2:-}
WORK=$(mktemp -d)
cd "$WORK"

step() { echo "== $*"; }
# fits PATTERN command...: the command succeeds, and a line of what it prints has the pattern.
fits() {
	local pattern=$1
	shift
	"$@" >output 2>&1 || { tail -n 30 output; echo "$* failed"; return 1; }
	grep -q -- "$pattern" output || { tail -n 30 output; echo "$* prints nothing like $pattern"; return 1; }
}
# What has to do with ptbpf, but for pages that man keeps for itself.
files() { find / -xdev \( -path "$DIR" -o -path "$WORK" -o -path /var/cache/man \) -prune -o -path '*ptbpf*' -print; }
# As users of Debian 12 do, whose own libbpf is too old; apt takes from it what it must.
backports() {
	. /etc/os-release
	[ "$VERSION_CODENAME" = bookworm ] || return 0
	sed 's/ bookworm / bookworm-backports /' /etc/apt/sources.list >/etc/apt/sources.list.d/backports.list
	TARGET="-t bookworm-backports"
}

TARGET=
[ -z "$(files)" ] || { files; echo "this Debian is not clean"; exit 1; }
backports
apt-get -qq update
step install
# shellcheck disable=SC2086
apt-get -qq -y --no-install-recommends $TARGET install "$DIR"/ptbpf_*.deb "$DIR"/ptbpf-agent_*.deb >install.log 2>&1 ||
	{ cat install.log; exit 1; }
apt-get -qq -y --no-install-recommends install man-db bash-completion >>install.log 2>&1
dpkg --verify ptbpf ptbpf-agent
[ -f /usr/lib/ptbpf/libptbpf_agent.so ]

step help
fits '^ptbpf 0' ptbpf --version
fits '--record-shapes' ptbpf attach --help
fits '^ok .*a program loads' ptbpf doctor
fits '/ptbpf-attach\.1\.gz$' man -w ptbpf-attach
fits 'ptbpf attach' man ptbpf-attach
fits '_ptbpf' bash -c '. /usr/share/bash-completion/bash_completion
	{ _comp_load ptbpf || _completion_loader ptbpf; } 2>/dev/null
	complete -p ptbpf'
[ -f /usr/share/zsh/vendor-completions/_ptbpf ]
[ -f /usr/share/fish/vendor_completions.d/ptbpf.fish ]

step service # there, for the administrator to enable
unit=$(dpkg -L ptbpf | grep '/systemd/system/ptbpf\.service$')
grep -q '^ExecStart=ptbpf sample .*--config /etc/ptbpf.conf' "$unit"
[ "$(dpkg-query -W -f '${Conffiles}' ptbpf | awk '{print $1}')" = /etc/ptbpf.conf ]
[ -z "$(find /etc/systemd -name 'ptbpf*')" ]

if [ -n "$TORCH" ]; then
	step attach
	apt-get -qq -y --no-install-recommends install python3 >>install.log 2>&1
	export PYTHONPATH=$TORCH
	python3 -u "$DIR/spin.py" >spin.log 2>&1 &
	target=$!
	trap 'kill -9 $target' EXIT
	for ((i = 0; i < 600; i++)); do
		! grep -qs rate spin.log || break
		kill -0 $target || { cat spin.log; exit 1; }
		sleep 0.2
	done
	fits 'aten::neg' ptbpf attach --pid $target -d 1s -o attach.ptb --trace attach.json
	kill -0 $target
	chmod 755 "$WORK"
	chown nobody attach.ptb
	fits 'aten::neg' setpriv --reuid nobody --clear-groups ptbpf report attach.ptb
	step record # starts the program with the agent, which it must find
	fits 'aten::neg' ptbpf record -o record.ptb --trace record.json -- \
		python3 -c 'import torch; [torch.ones(4).neg() for i in range(1000)]'
	fits '"source": *"agent"' cat record.json
	step sample # with the installed file
	sed -e 's/^schedule=.*/schedule=active=500ms,repeat=1/' -e 's/^max-overhead=.*/max-overhead=100%/' /etc/ptbpf.conf >sample.conf
	sed -i -e '/^all-torch=/d' sample.conf
	fits 'slices' ptbpf sample --config sample.conf --pid $target
	grep -q '"exit": 0' /var/lib/ptbpf/windows.jsonl
	trap - EXIT
	kill -9 $target
	wait $target 2>/dev/null || true
	[ -d /var/cache/ptbpf ]
fi

step purge
apt-get -qq -y purge ptbpf ptbpf-agent >>install.log 2>&1
[ -z "$(files)" ] || { files; echo "these are left"; exit 1; }
cd /
rm -rf "$WORK"
