#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Boots a kernel in QEMU with this machine's root file system, which it cannot change, and runs a command there.
#
#   tools/kernels/boot.sh NAME OUT COMMAND...     NAME as in kernels.sh; what the command prints goes to stdout
#
# The command runs as root in the tree's root folder; OUT is /run/out there, the only folder that outlives the guest (also: console, dmesg).
# Exit status: that of the command; 125: the guest ended without one. The processor is emulated,
# since KVM inside a virtual machine may hang (and does on some clouds); PTBPF_GUEST_KVM=1 uses it.
#   PTBPF_GUEST_MIB, PTBPF_GUEST_CPUS, PTBPF_GUEST_LIMIT     memory (1024), processors (2), seconds (900)
#   PTBPF_GUEST_APPEND     more for the kernel's command line
set -euo pipefail
. "$(dirname "$0")/../env.sh"
. "$PTBPF_ROOT/tools/kernels/kernels.sh"

[ $# -ge 3 ] || die "usage: tools/kernels/boot.sh NAME OUT COMMAND..."
KERNEL=$KERNELS_DIR/$1
OUT=$(realpath "$2")
shift 2
kernel_complete "$(basename "$KERNEL")" || die "no kernel in $KERNEL: tools/kernels/fetch.sh $(basename "$KERNEL")"
rm -f "$OUT/status" "$OUT/log"

cat >"$OUT/stage" <<STAGE
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run PYTHONDONTWRITEBYTECODE=1
$(for v in PTBPF PTBPF_PYTHON PTBPF_DEADLINE PTBPF_ENV_DIR; do [ -z "${!v:-}" ] || printf 'export %s=%q\n' "$v" "${!v}"; done)
cd $(printf %q "$PTBPF_ROOT")
$(printf '%q ' "$@") </dev/null >/run/out/log 2>&1
echo \$? >/run/out/status
dmesg >/run/out/dmesg 2>/dev/null
sync
echo o >/proc/sysrq-trigger
sleep 60
STAGE

# The kernel unpacks archives that follow each other.
cp "$KERNEL/initrd" "$OUT/initrd"
(cd "$PTBPF_ROOT/tools/kernels" && echo init | cpio -o -H newc --quiet) >>"$OUT/initrd"

# tsc=reliable: on a busy machine the kernel calls the time stamp counter unstable and changes its own code for that, which
# panics under emulation (an int3 that another processor has already replaced).
ACCEL="-accel tcg,thread=multi -cpu max"
[ "${PTBPF_GUEST_KVM:-0}" = 1 ] && ACCEL="-accel kvm -cpu host"
status=0
# shellcheck disable=SC2086
timeout "${PTBPF_GUEST_LIMIT:-900}" nice -n 5 qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
	-M q35 $ACCEL -smp "${PTBPF_GUEST_CPUS:-2}" -m "${PTBPF_GUEST_MIB:-1024}" -kernel "$KERNEL/vmlinuz" -initrd "$OUT/initrd" \
	-append "console=ttyS0 loglevel=5 panic=-1 rdinit=/init mitigations=off no_timer_check tsc=reliable ptbpf.keep=$PTBPF_ROOT:$PTBPF_ENV_DIR ${PTBPF_GUEST_APPEND:-}" \
	-serial "file:$OUT/console" \
	-virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
	-virtfs "local,path=$OUT,mount_tag=out,security_model=none" >"$OUT/qemu" 2>&1 || status=$?
[ ! -e "$OUT/log" ] || cat "$OUT/log"
if [ ! -s "$OUT/status" ]; then
	note "the guest ended without a result (qemu: $status$([ $status != 124 ] || echo ', out of time')); the end of its console:"
	tail -n 20 "$OUT/console" "$OUT/qemu" >&2
	exit 125
fi
exit "$(cat "$OUT/status")"
