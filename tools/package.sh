#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Builds Debian packages from the tree as it is, in build-package/RELEASE, and checks them with lintian: ptbpf,
# ptbpf-agent, and the debug symbols of both. As root, on Debian 12 or 13 or Ubuntu 24.04.
#
#   tools/package.sh               for the release of this machine, with its own compiler and libraries
#   tools/package.sh RELEASE...    for these releases of Debian (bookworm, trixie), each in a new chroot of it
set -euo pipefail
. "$(dirname "$0")/env.sh"
. "$PTBPF_ROOT/tools/apt.sh"
. "$PTBPF_ROOT/tools/chroot.sh"

OUT=$PTBPF_ROOT/build-package
TREE="CMakeLists.txt README.md HACKING.md bpf user cupti_agent schemas tools docs" # all but tests

version() { sed -n 's/^project(ptbpf VERSION \([0-9.]*\) .*/\1/p' "$PTBPF_ROOT/CMakeLists.txt"; }

# copy_tree DIR: what packages are made of, without anything that was built.
copy_tree() {
	mkdir -p "$1"
	# shellcheck disable=SC2086 # a list of names
	(cd "$PTBPF_ROOT" && tar --create --exclude=__pycache__ $TREE) | tar --extract --no-same-owner -C "$1"
}

# Packages of a newer release have a higher version, so that an upgrade of the system replaces them.
build_here() {
	local release id number upstream dir
	release=$(codename)
	id=$(. /etc/os-release && echo "$ID")
	number=$(. /etc/os-release && echo "$VERSION_ID")
	upstream=$(version)
	dir=$OUT/$release
	grep -qF "ptbpf ($upstream) " "$PTBPF_ROOT/tools/package/debian/changelog" ||
		die "tools/package/debian/changelog has no entry for version $upstream of CMakeLists.txt"
	"$PTBPF_ROOT/tools/setup.sh" build
	apt_install debhelper dpkg-dev lintian
	rm -rf "$dir"
	copy_tree "$dir/ptbpf-$upstream"
	cd "$dir/ptbpf-$upstream"
	cp -r tools/package/debian debian
	sed -i "1s/($upstream) [a-z]*;/($upstream+${id:0:3}$number) $release;/" debian/changelog
	note "building packages for $release"
	DEB_BUILD_OPTIONS="parallel=$(nproc)" dpkg-buildpackage -b -us -uc >../build.log 2>&1 || {
		tail -n 40 ../build.log >&2
		die "the packages could not be built: $dir/build.log"
	}
	cd ..
	rm -rf "ptbpf-$upstream"
	lintian --allow-root --fail-on error,warning ./*.changes || die "lintian objects to the packages in $dir"
}

# The same, by this script, in a chroot that lives no longer than that.
build_in_chroot() {
	local release=$1 dir status=0
	dir=$(mktemp -d "${TMPDIR:-/var/tmp}/ptbpf-package.XXXXXX")
	debian_tree "$release" "$dir" || status=1
	if [ $status = 0 ]; then
		copy_tree "$dir/ptbpf"
		in_chroot "$dir" /ptbpf/tools/package.sh || status=1
		rm -rf "${OUT:?}/$release"
		mkdir -p "$OUT"
		[ ! -d "$dir/ptbpf/build-package/$release" ] || cp -r "$dir/ptbpf/build-package/$release" "$OUT/$release"
	fi
	rm -rf --one-file-system "$dir"
	return $status
}

need_root "tools/package.sh"
if [ $# = 0 ]; then
	build_here
else
	for release; do
		build_in_chroot "$release" || die "no packages for $release"
	done
fi
ls -1 "$OUT"/*/*.deb
