#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Installs what building and testing need; may be run again at any time. As root, on Debian 12 or 13 or
# Ubuntu 24.04.
#
#   tools/setup.sh fuzz         packages to build the fuzzers with libFuzzer
#   tools/setup.sh build        packages to build and run ptbpf
#   tools/setup.sh static       static libraries for the program of tools/package.sh static, in $PTBPF_ENV_DIR/static
#   tools/setup.sh torch        + a PyTorch for the demo: the machine's own, else the main wheel
#   tools/setup.sh main         + the main wheel (fails when it cannot be installed)
#   tools/setup.sh legs         + what tests use beside it, and the other PyTorch legs; one that cannot be had leaves its reason in
#                                 $PTBPF_ENV_DIR/<leg>.why and is skipped by the tests
set -euo pipefail
. "$(dirname "$0")/env.sh"
. "$PTBPF_ROOT/tools/apt.sh"

PACKAGES="build-essential cmake pkg-config clang libelf-dev libdw-dev libcapstone-dev libcjson-dev libutf8proc-dev libcunit1-dev
	libzstd-dev libssl-dev zlib1g-dev libmicrohttpd-dev python3 python3-venv ca-certificates util-linux libseccomp2"
TEST_PACKAGES="curl sudo tmux mandoc man-db zsh fish systemd python3-pytest python3-yaml python3-prometheus-client"
VENV_GIB=7

libbpf_new_enough() {
	local v
	v=$(pkg-config --modversion libbpf 2>/dev/null) || return 1
	dpkg --compare-versions "$v" ge 1.3
}

# Debian 12's libbpf is too old; its backports have one. The line is made from the machine's own.
add_backports() {
	local suite uri key file=/etc/apt/sources.list.d/ptbpf-backports.sources
	suite=$(codename)-backports
	[ -z "$(apt_source "$suite")" ] || return 0
	IFS='|' read -r uri key < <(apt_source "$(codename)") || true
	[ -n "${uri:-}" ] || die "no apt source for $(codename) found to derive $suite from"
	note "adding $suite (for libbpf >= 1.3) in $file"
	{
		printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$uri" "$suite"
		[ "$key" = - ] || printf 'Signed-By: %s\n' "$key"
	} >"$file"
	apt_updated=
}

install_libbpf() {
	libbpf_new_enough && return 0
	apt_update
	local have
	have=$(candidate libbpf-dev)
	if [ -n "$have" ] && dpkg --compare-versions "${have#*:}" ge 1.3; then
		apt_install libbpf-dev
	else
		add_backports
		apt_update
		apt-get install -y -qq --no-install-recommends -t "$(codename)-backports" libbpf-dev >/dev/null ||
			die "libbpf-dev >= 1.3 cannot be installed"
	fi
	libbpf_new_enough || die "libbpf is still older than 1.3 after the installation"
}

# A bpftool that runs: Debian has a package; Ubuntu's wrapper wants the kernel's own version, but any does.
install_bpftool() {
	local tool
	bpftool version >/dev/null 2>&1 && return 0
	apt_update
	if [ -n "$(candidate bpftool)" ]; then
		apt_install bpftool
	else
		apt_install linux-tools-common linux-tools-generic
		tool=$(ls /usr/lib/linux-tools/*/bpftool 2>/dev/null | tail -n 1)
		[ -n "$tool" ] && ln -sf "$tool" /usr/local/sbin/bpftool
	fi
	PATH=$PATH:/usr/sbin:/sbin bpftool version >/dev/null 2>&1 || die "no working bpftool"
}

setup_build() {
	# shellcheck disable=SC2086
	apt_install $PACKAGES
	install_libbpf
	install_bpftool
}

# clang's own runtime: libFuzzer and the sanitizers.
setup_fuzz() {
	setup_build
	apt_install "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
}

# venv NAME VERSION: a virtual environment with the official wheel. Says why not in $why.
why=
venv() {
	local name=$1 version=$2 dir=$PTBPF_ENV_DIR/$1 free
	env_complete "$name" && return 0
	if [ -x "$dir/bin/python" ] && "$dir/bin/python" -I -c "import torch; assert torch.__version__.split('+')[0] == '$version'" \
		2>/dev/null; then
		env_stamp "$name" # made by somebody else, or before the stamp could be written
		return 0
	fi
	free=$(env_free_gib)
	if [ "$free" -lt $VENV_GIB ]; then
		why="needs $VENV_GIB GiB in $PTBPF_ENV_DIR, $free are free"
		return 1
	fi
	note "installing PyTorch $version into $dir"
	rm -rf "$dir"
	python3 -I -m venv "$dir" || { why="no virtual environment could be made"; return 1; }
	if ! "$dir/bin/pip" install -q --no-cache-dir "torch==$version" numpy setuptools >"$dir.log" 2>&1; then
		why="pip: $(grep -m1 ERROR "$dir.log" || tail -n 1 "$dir.log")"
		rm -rf "$dir"
		return 1
	fi
	env_stamp "$name"
}

# What Debian has no static library of (cJSON), or one that needs libraries for TLS that it has no static ones of (libmicrohttpd).
# They are made anew when they are older than a month. Says why not in $why.
setup_static() {
	local dir=$PTBPF_ENV_DIR/static work
	apt_install dpkg-dev libbz2-dev liblzma-dev zstd
	[ -z "$(find "$dir/$PTBPF_STAMP" -mtime -30 2>/dev/null)" ] || return 0
	note "building cJSON and libmicrohttpd in $dir"
	work=$(mktemp -d "$PTBPF_ENV_DIR/static.XXXXXX")
	if ! (
		cd "$work" && debian_source cjson libmicrohttpd &&
			cmake -S cjson-*/ -B cjson -DCMAKE_INSTALL_PREFIX="$dir" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release \
				-DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DENABLE_CJSON_TEST=OFF &&
			make -C cjson install && cd libmicrohttpd-*/ &&
			./configure --prefix="$dir" --disable-shared --with-pic --disable-https --disable-doc --disable-examples --disable-curl &&
			make -j"$(nproc)" install && cd .. &&
			install -D -m 644 cjson-*/debian/copyright "$dir/share/doc/cjson/copyright" &&
			install -D -m 644 libmicrohttpd-*/debian/copyright "$dir/share/doc/libmicrohttpd/copyright"
	) >"$dir.log" 2>&1; then
		why="static libraries cannot be built: $(tail -n 1 "$dir.log")"
		rm -rf "$work"
		return 1
	fi
	rm -rf "$work"
	env_stamp static
}

# The distribution's own PyTorch, for its own /usr/bin/python3.
distribution_torch() {
	/usr/bin/python3 -I -c 'import torch' 2>/dev/null && return 0
	apt_update
	[ -n "$(candidate python3-torch)" ] || { why="this distribution has no python3-torch"; return 1; }
	apt_install python3-torch python3-numpy || { why="apt-get install python3-torch failed"; return 1; }
}

# chroot_env NAME SUITE: a Debian of that suite with its own Python and the main wheel.
chroot_env() {
	local name=$1 suite=$2 dir=$PTBPF_ENV_DIR/$1 uri key free
	env_complete "$name" && return 0
	free=$(env_free_gib)
	if [ "$free" -lt $((VENV_GIB + 1)) ]; then
		why="needs $((VENV_GIB + 1)) GiB in $PTBPF_ENV_DIR, $free are free"
		return 1
	fi
	IFS='|' read -r uri key < <(apt_source "$(codename)") || true
	if [ -z "${uri:-}" ] || ! grep -qi debian /etc/os-release; then
		why="no Debian mirror is known on this machine"
		return 1
	fi
	apt_install debootstrap || { why="apt-get install debootstrap failed"; return 1; }
	note "making a chroot of $suite in $dir"
	chroot_unmount "$dir"
	rm -rf --one-file-system "$dir"
	mkdir -p "$dir"
	if ! debootstrap --variant=minbase --include=python3,python3-pip,ca-certificates "$suite" "$dir" "$uri" \
		>"$dir.log" 2>&1; then
		why="debootstrap: $(tail -n 1 "$dir.log")"
		rm -rf --one-file-system "$dir"
		return 1
	fi
	if ! chroot_pip "$dir" >>"$dir.log" 2>&1; then
		why="pip: $(grep -m1 ERROR "$dir.log" || tail -n 1 "$dir.log")"
		rm -rf --one-file-system "$dir"
		return 1
	fi
	env_stamp "$name"
}

# The next CPython beside the default one, for the tests of Python stacks.
chroot_python() { # chroot_python NAME PACKAGE...
	local dir=$PTBPF_ENV_DIR/$1
	shift
	! chroot "$dir" dpkg -s "$@" >/dev/null 2>&1 || return 0
	unshare --mount sh -ec '
		root=$1; shift
		for m in proc sys dev; do mount --rbind "/$m" "$root/$m"; done
		exec chroot "$root" apt-get install -y -qq --no-install-recommends "$@"
	' sh "$dir" "$@" >>"$dir.log" 2>&1 || note "$1 cannot be installed: $(tail -n 1 "$dir.log")"
}

chroot_unmount() {
	local m
	for m in proc sys dev; do
		! mountpoint -q "$1/$m" || umount -l "$1/$m"
	done
}

# Installs the wheel for the chroot's Python; mounts live in a private namespace and vanish with it.
chroot_pip() {
	local dir=$1 f
	for f in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
		[ ! -e "$f" ] || { mkdir -p "$dir$(dirname "$f")" && cp -L "$f" "$dir$f"; }
	done
	mkdir -p "$dir/opt/torch" "$dir/ptbpf-tests"
	unshare --mount sh -ec '
		mount --bind /proc "$1/proc"; mount --bind /sys "$1/sys"; mount --bind /dev "$1/dev"
		exec chroot "$1" python3 -I -m pip install -q --no-cache-dir --target /opt/torch "torch==$2" numpy setuptools
	' sh "$dir" "$PTBPF_MAIN_TORCH"
	printf '#!/bin/sh\nPYTHONPATH=/opt/torch exec /usr/bin/python3 "$@"\n' >"$dir/usr/local/bin/leg-python"
	chmod 755 "$dir/usr/local/bin/leg-python"
}

# Frameworks on top of the main wheel, which they see and leave as it is.
frameworks_env() {
	local dir=$PTBPF_ENV_DIR/frameworks main
	env_complete frameworks && return 0
	note "installing PyTorch Lightning, Accelerate and torchtitan into $dir"
	rm -rf "$dir"
	main=$("$(venv_python "torch-$PTBPF_MAIN_TORCH")" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))') &&
		python3 -I -m venv "$dir" || { why="no virtual environment could be made"; return 1; }
	printf '%s\n' "$main" >"$("$dir/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main.pth"
	# shellcheck disable=SC2086 # a list of packages
	if ! { "$dir/bin/pip" install -q --no-cache-dir $PTBPF_FRAMEWORKS &&
		"$dir/bin/pip" install -q --no-cache-dir --no-deps $PTBPF_TITAN; } >"$dir.log" 2>&1; then
		why="pip: $(grep -m1 ERROR "$dir.log" || tail -n 1 "$dir.log")"
		rm -rf "$dir"
		return 1
	fi
	env_stamp frameworks
}

# Prometheus is unpacked and not installed: nothing is to run on this machine for good.
prometheus_env() {
	local dir=$PTBPF_ENV_DIR/prometheus
	env_complete prometheus && return 0
	apt_update
	rm -rf "$dir"
	mkdir -p "$dir"
	chmod 755 "$dir"
	if ! (cd "$dir" && apt-get download -qq -o APT::Sandbox::User=root prometheus && dpkg-deb -x prometheus_*.deb . &&
		rm prometheus_*.deb) >"$dir.log" 2>&1; then
		why="prometheus: $(tail -n 1 "$dir.log")"
		rm -rf "$dir"
		return 1
	fi
	env_stamp prometheus
}

leg() { # leg NAME command...: records why a leg is missing
	local name=$1
	shift
	why=
	rm -f "$PTBPF_ENV_DIR/$name.why"
	"$@" && return 0
	note "leg $name is missing: $why"
	printf '%s\n' "$why" >"$PTBPF_ENV_DIR/$name.why"
}

setup_main() {
	venv "torch-$PTBPF_MAIN_TORCH" "$PTBPF_MAIN_TORCH" || die "PyTorch $PTBPF_MAIN_TORCH cannot be installed: $why"
}

setup_legs() {
	# shellcheck disable=SC2086 # a list of packages
	apt_install $TEST_PACKAGES
	# tools/check_format.sh; other releases than Debian 12 may not have it, and skip that check
	apt_install clang-format-14 || note "clang-format-14 cannot be installed"
	apt_install chromium || note "chromium cannot be installed: traces and flame graphs are not viewed"
	apt_install nodejs || note "nodejs cannot be installed: Perfetto traces are not read"
	leg "torch-$PTBPF_OLD_TORCH" venv "torch-$PTBPF_OLD_TORCH" "$PTBPF_OLD_TORCH"
	leg distribution distribution_torch
	leg static setup_static
	leg prometheus prometheus_env
	leg frameworks frameworks_env
	leg chroot-trixie chroot_env chroot-trixie trixie
	leg chroot-unstable chroot_env chroot-unstable unstable
	! env_complete chroot-unstable || chroot_python chroot-unstable python3.15-minimal libpython3.15
}

need_root "tools/setup.sh"
case ${1:-build} in
build) setup_build ;;
fuzz) setup_fuzz ;;
static)
	setup_build
	setup_static || die "$why"
	;;
torch)
	setup_build
	python3 -I -c 'import torch' >/dev/null 2>&1 || setup_main
	;;
main)
	setup_build
	setup_main
	;;
legs)
	setup_build
	setup_main
	setup_legs
	;;
*) die "usage: tools/setup.sh [build|fuzz|static|torch|main|legs]" ;;
esac
