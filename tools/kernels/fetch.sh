#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Downloads kernels of Debian and makes the small initrd that they boot with here. Nothing is installed: packages
# are unpacked into $PTBPF_ENV_DIR/kernels, from the machine's own mirror, by an apt with a state of its own.
#
#   tools/kernels/fetch.sh [--again] NAME...     names as in kernels.sh; --again: also those that are here already
#   tools/kernels/fetch.sh --image FILE NAME     a kernel of your own under a name of your own: a bzImage without modules
#
# Why a kernel could not be had is in $PTBPF_ENV_DIR/kernels/NAME.why.
set -euo pipefail
. "$(dirname "$0")/../env.sh"
. "$PTBPF_ROOT/tools/apt.sh"
. "$PTBPF_ROOT/tools/kernels/kernels.sh"

AGAIN= IMAGE=
case ${1:-} in
--again)
	AGAIN=1
	shift
	;;
--image)
	[ $# = 3 ] || die "--image needs a file and a name"
	IMAGE=$2
	shift 2
	;;
esac

# An apt that knows one suite only; the machine's own is not touched.
SUITE_OPTS=()
open_suite() { # SUITE
	local dir=$KERNELS_DIR/apt/$1 uri key
	IFS='|' read -r uri key < <(apt_source "$(codename)") || true
	if [ -z "${uri:-}" ] || ! grep -qi '^ID=debian' /etc/os-release; then
		why="no Debian mirror is known on this machine"
		return 1
	fi
	mkdir -p "$dir/sources" "$dir/lists/partial" "$dir/archives/partial"
	: >"$dir/status"
	{
		printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$uri" "$1"
		[ "$key" = - ] || printf 'Signed-By: %s\n' "$key"
	} >"$dir/sources/suite.sources"
	SUITE_OPTS=(-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$dir/sources" -o Dir::State="$dir"
		-o Dir::State::Lists="$dir/lists" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir"
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null)
	if ! apt-get "${SUITE_OPTS[@]}" update -qq >"$dir/log" 2>&1; then
		why="apt-get update for $1: $(grep -m1 '^E:' "$dir/log" || tail -n 1 "$dir/log")"
		return 1
	fi
}

depends() { # PACKAGE PATTERN
	apt-cache "${SUITE_OPTS[@]}" depends "$1" | sed -n 's/^ *Depends: //p' | grep -E "^($2)" || true
}

# The image that the meta package stands for, and what newer kernels keep in packages of their own.
download() { # PACKAGE DIR
	local image
	image=$(depends "$1" 'linux-image-[0-9]' | head -n 1)
	if [ -z "$image" ]; then
		why="no package $1"
		return 1
	fi
	# shellcheck disable=SC2046 # a list of names
	(cd "$2" && apt-get "${SUITE_OPTS[@]}" download -qq "$image" $(depends "$image" 'linux-(binary|modules)-[0-9]')) \
		>"$2/log" 2>&1 || {
		why="apt-get download $image: $(tail -n 1 "$2/log")"
		return 1
	}
}

# Modules without which the guest has no root file system, in the order of their needs, unpacked.
put_modules() { # ROOT VERSION DIR
	local module file n=100 base
	for module in virtio_pci 9pnet_virtio 9p; do
		modprobe -d "$1" -S "$2" --show-depends "$module" 2>/dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p' || true
	done | awk '!seen[$0]++' | while read -r file; do
		n=$((n + 1))
		base=$(basename "$file")
		case $file in
		*.xz) xz -dc "$file" >"$3/$n-${base%.xz}" ;;
		*.zst) zstd -qdc "$file" >"$3/$n-${base%.zst}" ;;
		*) cp "$file" "$3/$n-$base" ;;
		esac
	done
}

# Without /init, which boot.sh adds.
make_initrd() { # ROOT VERSION FILE
	local dir=$1/initrd
	mkdir -p "$dir"/{bin,modules,proc,sys,dev,root,keep}
	cp "$(command -v busybox)" "$dir/bin/busybox"
	put_modules "$1" "$2" "$dir/modules"
	(cd "$dir" && find . | cpio -o -H newc --quiet) >"$3"
}

fetch() { # NAME SUITE PACKAGE
	local tmp=$KERNELS_DIR/$1.new version deb
	note "fetching the kernel $1 ($3 of $2)"
	rm -rf "$tmp"
	mkdir -p "$tmp"
	open_suite "$2" || return 1
	download "$3" "$tmp" || return 1
	for deb in "$tmp"/*.deb; do
		dpkg -x "$deb" "$tmp/root"
	done
	[ -d "$tmp/root/lib/modules" ] || ln -sfn usr/lib "$tmp/root/lib"
	version=$(ls "$tmp/root/lib/modules")
	depmod -b "$tmp/root" "$version"
	keep "$1" "$version" "$(ls "$tmp/root"/boot/vmlinuz-* "$tmp/root/lib/modules/$version/vmlinuz" 2>/dev/null | head -n 1)"
}

# With the modules in NAME.new/root, if any.
keep() { # NAME VERSION IMAGE
	local dir=$KERNELS_DIR/$1 tmp=$KERNELS_DIR/$1.new
	cp "$3" "$tmp/vmlinuz"
	make_initrd "$tmp/root" "$2" "$tmp/initrd"
	rm -rf "$tmp/root" "$tmp"/*.deb
	printf '%s\n' "$2" >"$tmp/version"
	rm -rf "$dir"
	mv "$tmp" "$dir"
}

# Where an image has its version: Documentation/arch/x86/boot.rst, kernel_version.
image_version() { # FILE
	tail -c +$(($(od -An -tu2 -j 526 -N 2 "$1") + 513)) "$1" | tr '\0' '\n' | sed -n '1s/ .*//p'
}

need_root "tools/kernels/fetch.sh"
# shellcheck disable=SC2086
apt_install $KERNEL_PACKAGES
if [ -n "$IMAGE" ]; then
	rm -rf "$KERNELS_DIR/$1.new"
	mkdir -p "$KERNELS_DIR/$1.new"
	keep "$1" "$(image_version "$IMAGE")" "$IMAGE"
	exit
fi
incomplete=0
for name; do
	if [ -z "$AGAIN" ] && kernel_complete "$name"; then
		continue
	fi
	read -r suite package < <(kernel_rows | awk -v n="$name" '$1 == n { print $2, $3 }') || die "no kernel is called $name"
	why="see the messages above"
	rm -f "$KERNELS_DIR/$name.why"
	fetch "$name" "$suite" "$package" && continue
	mkdir -p "$KERNELS_DIR"
	printf '%s\n' "$why" >"$KERNELS_DIR/$name.why"
	note "kernel $name is missing: $why"
	incomplete=1
done
exit $incomplete
