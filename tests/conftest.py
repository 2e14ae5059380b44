# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Fixtures and hooks of all Python tests."""

import contextlib
import os
import re
import signal
import subprocess
import tarfile

import pytest

import support

subprocess.run(["bash", os.path.join(support.ROOT, "tools", "env.sh")], check=True)  # ends where another user can change the environments
import environments  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--env", choices=environments.NAMES, help="the PyTorch environment of the targets (default: $PTBPF_PYTHON, else main)")


def pytest_configure(config):
    """Before any test file takes PYTHON from support."""
    os.environ[support.RUN_MARK] = str(os.getpid())
    if config.getoption("--env"):
        support.PYTHON = environments.get(config.getoption("--env")).python


@pytest.fixture(scope="session", autouse=True)
def environment(request):
    """--env names an environment that exists."""
    which = request.config.getoption("--env")
    why = environments.get(which).why_not() if which else None
    if why:
        pytest.skip(why)


@pytest.fixture
def ws():
    """A temporary folder of this test, as text."""
    with support.workspace() as path:
        yield path


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    """golden(NAME): the path of a golden capture."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(os.path.join(support.ROOT, "tests", "golden", "captures.tar.xz")) as tar:
        tar.extractall(folder)
    return lambda name: str(folder / (name + ".ptb"))


@pytest.fixture
def detail(record_property):
    """detail(text): a result of the test, for the log and the JUnit file."""
    return lambda text: text and record_property("detail", text)


@pytest.fixture
def spin():
    """tests/workloads/spin.py, one for all tests of a file: a test must leave it unchanged."""
    return support.shared(support.workload, "spin.py")


@pytest.fixture(scope="module", autouse=True)
def end_of_processes():
    """A file of tests leaves no process behind; if one does, the process is killed and the file fails."""
    yield
    support.end_shared()
    support.Forker.end()
    with contextlib.suppress(support.Failure):  # processes of a killed ptbpf need a moment
        support.wait_for(lambda: not support.processes_of_run(), "the processes of the tests to end", 20)
    left = {pid: command_line(pid) for pid in support.processes_of_run()}
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    support.check(not left, f"left behind: {left}")


def command_line(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
        return f.read().replace("\0", " ")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A shared target of a failed test is not used by other tests."""
    outcome = yield
    if outcome.get_result().failed:
        support.end_shared()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Writes to the JUnit file the processor time of a test and of the processes that it waited for."""
    before = sum(os.times()[:4])
    yield
    item.user_properties.append(("processor", f"{sum(os.times()[:4]) - before:.1f}"))


def other_turn(item):
    """Whether it belongs to another environment than the main one, which another run of tools/test.sh has (turn() in CMakeLists.txt)."""
    name = re.search(r"\[(?:.*-)?(old|distribution|chroot)\b", item.name)
    return name and os.environ.get("PTBPF_TURN", "") not in ("", {"old": "1", "distribution": "2", "chroot": "3"}[name[1]])


def pytest_collection_modifyitems(config, items):
    """Without PTBPF_SOAK=1 the tests marked `soak` are left out, and with PTBPF_TURN those of other turns."""
    out = [item for item in items if other_turn(item) or (item.get_closest_marker("soak") and not support.soak())]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]
