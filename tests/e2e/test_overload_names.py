# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""--overload-names: every operator has the name that torch.profiler gives to it with capture_overload_names, in the same process at the same time."""

import collections
import subprocess

import pytest

from support import AGENT, Tracer, check, load_trace, require_root, run_ptbpf, slices, workload


def names(path):
    return collections.Counter(e["name"] for e in slices(load_trace(path), cat="cpu_op"))


@pytest.mark.parametrize("source", ("probes", "agent"))
def test_names(ws, detail, source):
    require_root()
    with workload("overload_names.py", ws + "/truth.json", stdin=subprocess.PIPE, env={"LD_PRELOAD": AGENT} if source == "agent" else None) as p:
        p.wait_line("^ready")
        with Tracer("attach", "--pid", p.pid, "--overload-names", "--agent", "auto" if source == "agent" else "off", "-o", ws + "/a.ptb", "--trace", ws + "/a.json",
                    "--no-table") as t:
            t.wait_attached()
            p.send()
            p.wait_line("^done")
            t.stop((0, 3))
        p.wait_line("^written")
    want, got = names(ws + "/truth.json"), names(ws + "/a.json")
    check(want == got, f"torch's only: {want - got}\nptbpf's only: {got - want}")
    with_overload = {name for name in want if "." in name.rsplit("::", 1)[-1]}
    check(len(with_overload) > 20 and "ptbpf_test::twice.by_number" in with_overload, f"{with_overload}")
    run_ptbpf("export", ws + "/a.ptb", "--no-overload-names", "-o", ws + "/plain.json", expect=(0, 3))
    plain = collections.Counter()
    for name, count in want.items():
        plain[name.rsplit(".", 1)[0] if name in with_overload else name] += count
    check(names(ws + "/plain.json") == plain, "names without overloads")
    run_ptbpf("export", ws + "/a.ptb", "-o", ws + "/again.json", expect=(0, 3))
    check(names(ws + "/again.json") == got, "an export has the names that the recording asked for")
    detail(f"{sum(want.values())} operators, {len(want)} names, {len(with_overload)} with an overload")
