# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Sourced after apt.sh by scripts that need a clean Debian of a release.

# debian_tree RELEASE DIR: a minimal Debian of that release in DIR, which exists. It is unpacked from
# $PTBPF_ENV_DIR/debian-RELEASE.tar, which debootstrap makes, and makes anew when it is older than a month.
debian_tree() {
	local release=$1 dir=$2 tar=$PTBPF_ENV_DIR/debian-$1.tar uri key
	if [ -z "$(find "$tar" -mtime -30 2>/dev/null)" ]; then
		IFS='|' read -r uri key < <(apt_source "$(codename)") || true
		if [ -z "${uri:-}" ] || ! grep -qi debian /etc/os-release; then
			note "no Debian mirror is known on this machine"
			return 1
		fi
		apt_install debootstrap || return 1
		note "making a Debian of $release"
		rm -rf --one-file-system "$tar.dir"
		debootstrap --variant=minbase "$release" "$tar.dir" "$uri" >"$tar.log" 2>&1 || {
			note "debootstrap: $(tail -n 1 "$tar.log")"
			return 1
		}
		tar --create --file "$tar.part" -C "$tar.dir" . && mv "$tar.part" "$tar" || return 1
		rm -rf --one-file-system "$tar.dir"
	fi
	tar --extract --file "$tar" -C "$dir" || return 1
	cp -L /etc/resolv.conf /etc/hosts "$dir/etc/" || return 1
	echo force-unsafe-io >"$dir/etc/dpkg/dpkg.cfg.d/unsafe-io" # it does not outlive a crash of the machine
}

# in_chroot DIR command...: mounts live in a namespace of its own and vanish with it.
in_chroot() {
	unshare --mount sh -ec '
		for m in proc sys dev; do mount --rbind "/$m" "$1/$m"; done
		exec chroot "$@"
	' sh "$@"
}
