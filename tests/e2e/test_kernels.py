# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Older kernels, simulated on this one; tools/kernels runs real ones."""

import os

from support import PTBPF, PYTHON, WORKLOADS, Skip, check, load_trace, require_root, run_ptbpf, slices, workload

SHIM = os.path.join(os.path.dirname(PTBPF), "tests", "workloads", "libold_kernel.so")
COOKIE, LOOP = 174, 181  # enum bpf_func_id: get_attach_cookie (Linux 5.15), loop (5.17)


def old_kernel(**variables):
    """An environment for ptbpf on a kernel that is like that."""
    require_root()
    if not os.path.exists(SHIM):
        raise Skip(f"{SHIM} is not built")
    return dict(os.environ, LD_PRELOAD=SHIM, **variables)


def without(helper):
    return old_kernel(OLD_KERNEL_LACKS=str(helper))


def test_too_old(ws):
    """Before 5.15: every command names the kernel that is needed, and prints nothing about a program that never ran."""
    env = without(COOKIE)
    with workload("spin.py") as p:
        p.wait_line("ready")
        doctor = run_ptbpf("doctor", expect=1, env=env)
        rows = [line for line in doctor.out if line.startswith("NO ")]
        check(len(rows) == 1 and "5.15" in rows[0], f"doctor\n{doctor.text()}")
        for name, args in (("attach", ("--pid", p.pid)), ("record", ("--", "/bin/true"))):
            t = run_ptbpf(name, "-o", f"{ws}/{name}.ptb", *args, expect=1, env=env)
            errors = [line for line in t.err if "hint" not in line]
            check(len(errors) == 1 and "Linux 5.15 is needed" in errors[0], f"{name}\n{t.text()}")
            check(not os.listdir(ws), f"{name} left {os.listdir(ws)}")


def test_agent_shapes(ws):
    """Before 5.17: the agent decodes values itself; without it no shapes are recorded, and ptbpf reports that."""
    env = without(LOOP)
    script = os.path.join(WORKLOADS, "scripted.py")
    for option in ("--record-shapes", "--execution-trace"):
        run_ptbpf("record", option, "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--no-table", "--", PYTHON, script,
                  env=env)
        ops = slices(load_trace(ws + "/r.json"), cat="cpu_op")
        shapes = [e for e in ops if any(e["args"].get("Input Dims", []))]
        check(len(ops) > 20 and len(shapes) > len(ops) // 2,
              f"{option}: {len(shapes)} of {len(ops)} operators have shapes")
    t = run_ptbpf("record", "--record-shapes", "--agent", "off", "-o", ws + "/o.ptb", "--", PYTHON, script, expect=1,
                  env=env)
    check(any("cannot read arguments" in line and "bpf_loop" in line for line in t.err), f"--agent off\n{t.text()}")
    with workload("spin.py") as p:
        p.wait_line("ready")
        t = run_ptbpf("attach", "--pid", p.pid, "-d", "300ms", "--record-shapes", "-o", ws + "/n.ptb",
                      "--trace", ws + "/n.json", "--no-table", expect=3, env=env)
        check(any("without shapes" in line for line in t.err), f"no agent\n{t.text()}")
        check(slices(load_trace(ws + "/n.json"), cat="cpu_op"), "no operators without an agent")


def test_stacks_refused(ws):
    """Before 5.17: no stacks, and nothing is recorded without them."""
    with workload("spin.py") as p:
        p.wait_line("ready")
        t = run_ptbpf("attach", "--pid", p.pid, "-d", "300ms", "--with-stack", "-o", ws + "/s.ptb", expect=1, env=without(LOOP))
        check(any("Python stacks: missing: bpf_loop" in line for line in t.err), f"--with-stack\n{t.text()}")
        check(any("5.17" in line for line in t.err), f"--with-stack\n{t.text()}")


def test_links_of_one_thread(ws):
    """Linux 6.6 to 6.9, where a uprobe_multi link to a process serves one of its threads: other links are used, and all threads recorded."""
    env = old_kernel(OLD_KERNEL_THREAD_LINKS="1")
    doctor = run_ptbpf("doctor", env=env)
    check(any(line.startswith("no ") and "serves its main thread only" in line for line in doctor.out), f"doctor\n{doctor.text()}")
    program = (PYTHON, os.path.join(WORKLOADS, "many_threads.py"), "8")
    for agent in ("off", "auto"):
        t = run_ptbpf("record", "--agent", agent, "-o", ws + "/r.ptb", "--trace", ws + "/r.json", "--no-table", "--", *program, env=env)
        trace = load_trace(ws + "/r.json")
        check(bool(trace["ptbpf"].get("agents")) == (agent == "auto"), f"{agent}: agents {trace['ptbpf'].get('agents')}")
        tids = {e["tid"] for e in slices(trace, "aten::neg")}
        check(len(tids) == 8, f"{agent}: operators of {len(tids)} of 8 threads\n{t.text()}")
