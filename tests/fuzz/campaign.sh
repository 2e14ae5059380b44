#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Builds the fuzzers with libFuzzer and runs each for $PTBPF_FUZZ_SECONDS (3600); the corpora are kept in $PTBPF_ENV_DIR/corpus.
#
#   tests/fuzz/campaign.sh BUILD
set -e
cd "$(dirname "$0")/../.."
. tools/env.sh
tools/setup.sh fuzz
cmake -S . -B "$1" -DCMAKE_C_COMPILER=clang -DPTBPF_FUZZ=ON
cmake --build "$1" --target fuzzers -j "$(nproc)"
exec python3 tests/fuzz/run.py "$1" "$PTBPF_ENV_DIR/corpus" "${PTBPF_FUZZ_SECONDS:-3600}"
