# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs each fuzzer under libFuzzer with the sanitizers; the corpus of each is kept and grows from run to run.

  run.py BUILD CORPUS [SECONDS] [NAME...]     BUILD: made with -DPTBPF_FUZZ=ON and clang; default 3600 seconds each

Prints one line PASS or FAIL per fuzzer. What made one fail is kept in CORPUS/NAME.crash/.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

INPUT_MAX = 65536
MEMORY_MIB = 4096
INPUT_SECONDS = 30  # one input may take as long under the sanitizers


def names(build):
    folder = os.path.join(build, "tests", "fuzz")
    return sorted(f[len("fuzz_"):] for f in os.listdir(folder)
                  if f.startswith("fuzz_") and os.access(os.path.join(folder, f), os.X_OK))


def run(build, corpus, seconds, name):
    kept, crashes = os.path.join(corpus, name), os.path.join(corpus, name + ".crash")
    for folder in (kept, crashes):
        os.makedirs(folder, exist_ok=True)
    done = subprocess.run([os.path.join(build, "tests", "fuzz", "fuzz_" + name), kept, f"-max_total_time={seconds}",
                           f"-max_len={INPUT_MAX}", f"-rss_limit_mb={MEMORY_MIB}", f"-timeout={INPUT_SECONDS}",
                           f"-artifact_prefix={crashes}/", "-print_final_stats=1", "-close_fd_mask=3", "-use_value_profile=1"],
                          capture_output=True, text=True, errors="replace")
    inputs = re.search(r"stat::number_of_executed_units: *(\d+)", done.stderr)
    covered = re.findall(r"cov: (\d+)", done.stderr)
    if done.returncode == 0 and inputs:
        print(f"PASS fuzz.{name}: {inputs[1]} inputs, {covered[-1] if covered else 0} edges, {len(os.listdir(kept))} in the corpus",
              flush=True)
        return True
    print(f"FAIL fuzz.{name}: exit {done.returncode}; inputs that fail: {', '.join(sorted(os.listdir(crashes))) or 'none'}")
    for line in done.stderr.splitlines()[-40:]:
        print("    " + line, flush=True)
    return False


def main():
    build, corpus = sys.argv[1:3]
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 3600
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        good = list(pool.map(lambda name: run(build, corpus, seconds, name), sys.argv[4:] or names(build)))
    sys.exit(0 if good and all(good) else 1)


if __name__ == "__main__":
    main()
