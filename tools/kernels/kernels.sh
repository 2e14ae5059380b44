# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Sourced by the other scripts here: the kernels, and where they are kept. A kernel's folder holds vmlinuz,
# initrd and version (what uname -r prints); without a version it is not complete.

KERNELS_DIR=$PTBPF_ENV_DIR/kernels

# name, suite and package. 5.10 is below what ptbpf needs: it must say so.
kernel_rows() {
	cat <<-'ROWS'
	5.10 bullseye linux-image-amd64
	6.1 bookworm linux-image-amd64
	6.1-rt bookworm linux-image-rt-amd64
	6.12 trixie linux-image-amd64
	newest sid linux-image-amd64
	next experimental linux-image-amd64
	ROWS
}

kernel_names() { kernel_rows | cut -d' ' -f1; }
kernel_complete() { [ -s "$KERNELS_DIR/$1/version" ]; }

# What booting needs beside the kernel.
KERNEL_PACKAGES="qemu-system-x86 busybox-static kmod cpio xz-utils zstd"
