#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Builds packages from the tree as it is, in build-package. As root, on Debian 12 or 13 or Ubuntu 24.04.
#
#   tools/package.sh               Debian packages, in build-package/RELEASE, for the release of this machine, with its own compiler
#                                  and libraries: ptbpf, ptbpf-agent, and the debug symbols of both, checked with lintian
#   tools/package.sh RELEASE...    for these releases of Debian (bookworm, trixie), each in a new chroot of it
#   tools/package.sh static        ptbpf-VERSION-x86_64-linux.tar.zst: the program with all libraries in it and the agent, for any
#                                  distribution; made in a chroot unless this is Debian 12 (Debian 13's libelf.a lacks functions)
#   tools/package.sh wheel         the same for pip: ptbpf-VERSION-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
set -euo pipefail
. "$(dirname "$0")/env.sh"
. "$PTBPF_ROOT/tools/apt.sh"
. "$PTBPF_ROOT/tools/chroot.sh"

OUT=$PTBPF_ROOT/build-package
TREE="CMakeLists.txt LICENSE README.md HACKING.md CHANGELOG.md bpf user cupti_agent schemas tools docs" # all but tests

version() { sed -n 's/^project(ptbpf VERSION \([0-9.]*\) .*/\1/p' "$PTBPF_ROOT/CMakeLists.txt"; }

check_version() {
	grep -qF "ptbpf ($1) " "$PTBPF_ROOT/tools/package/debian/changelog" && grep -qF "## [$1] " "$PTBPF_ROOT/CHANGELOG.md" ||
		die "CHANGELOG.md or tools/package/debian/changelog has no entry for version $1 of CMakeLists.txt"
}

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
	check_version "$upstream"
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

# build_in_chroot RELEASE [static|wheel]: the same, by this script, in a chroot that lives no longer than that.
build_in_chroot() {
	local release=$1 made dir status=0
	dir=$(mktemp -d "${TMPDIR:-/var/tmp}/ptbpf-package.XXXXXX")
	debian_tree "$release" "$dir" || status=1
	if [ $status = 0 ]; then
		copy_tree "$dir/ptbpf"
		in_chroot "$dir" /ptbpf/tools/package.sh ${2:+"$2"} >&2 || status=1
		mkdir -p "$OUT"
		for made in "$dir"/ptbpf/build-package/{"$release",*.zst,*.whl}; do
			[ -e "$made" ] || continue
			rm -rf "${OUT:?}/$(basename "$made")"
			cp -r "$made" "$OUT"
		done
	fi
	rm -rf --one-file-system "$dir"
	return $status
}

# licenses_of LINES: what Debian says of the packages of the static libraries in a linker's command, and of those built for it.
licenses_of() {
	local package file
	for package in $({ grep -o '/usr/lib/[^ ]*\.a\b' "$1" | xargs dpkg -S && echo libc6-dev; } | cut -d: -f1 | sort -u); do
		printf '\n==== %s ====\n\n' "$package"
		cat "/usr/share/doc/$package/copyright"
	done
	for file in "$PTBPF_ENV_DIR"/static/share/doc/*/copyright; do
		printf '\n==== %s ====\n\n' "$(basename "$(dirname "$file")")"
		cat "$file"
	done
}

# Installs in build-package/static/root, as below /usr.
build_static() {
	local dir=$OUT/static
	check_version "$(version)"
	"$PTBPF_ROOT/tools/setup.sh" static
	mkdir -p "$dir"
	note "building the static program"
	{
		PKG_CONFIG_PATH=$PTBPF_ENV_DIR/static/lib/pkgconfig cmake -S "$PTBPF_ROOT" -B "$dir/build" -DPTBPF_STATIC=ON -DBUILD_TESTING=OFF &&
			cmake --build "$dir/build" -j"$(nproc)" && rm -rf "$dir/root" && cmake --install "$dir/build" --strip --prefix "$dir/root"
	} >"$dir/build.log" 2>&1 || {
		tail -n 40 "$dir/build.log" >&2
		die "the static program could not be built: $dir/build.log"
	}
	licenses_of "$dir/build/CMakeFiles/ptbpf.dir/link.txt" >"$dir/LICENSE.libraries"
}

pack_static() {
	local root=$OUT/static/root name top
	name=ptbpf-$(version)-x86_64-linux
	top=$OUT/static/$name
	rm -rf "$top"
	mkdir "$top"
	cp -r "$root/bin/ptbpf" "$root/lib/ptbpf/libptbpf_agent.so" "$root/share" "$OUT/static/LICENSE.libraries" "$top"
	(cd "$PTBPF_ROOT" && cp -r LICENSE CHANGELOG.md README.md docs "$top")
	tar --create --zstd --sort=name --owner=0 --group=0 --file "$OUT/$name.tar.zst" -C "$OUT/static" "$name"
	rm -rf "$top"
}

pack_wheel() {
	python3 "$PTBPF_ROOT/tools/package/wheel.py" "$(version)" "$OUT/static/root" "$OUT/static/LICENSE.libraries" "$OUT"
}

need_root "tools/package.sh"
case ${1:-} in
'')
	build_here
	ls -1 "$OUT"/*/*.deb
	;;
static | wheel)
	if [ "$(codename)" = bookworm ]; then
		build_static
		"pack_$1"
	else
		build_in_chroot bookworm "$1" || die "no static program"
	fi
	ls -1 "$OUT/ptbpf-$(version)-"*."$([ "$1" = wheel ] && echo whl || echo zst)"
	;;
*)
	for release; do
		build_in_chroot "$release" || die "no packages for $release"
	done
	ls -1 "$OUT"/*/*.deb
	;;
esac
