# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Fixtures and hooks of all Python tests."""

import contextlib
import os
import signal

import pytest

import environments
import support


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
    """A folder of this test, as text."""
    with support.workspace() as path:
        yield path


@pytest.fixture
def detail(record_property):
    """detail(text): what the test found, for the log and the JUnit file."""
    return lambda text: text and record_property("detail", text)


@pytest.fixture
def spin():
    """tests/workloads/spin.py, one for all tests of a file: leave it as it was."""
    return support.shared(support.workload, "spin.py")


@pytest.fixture(scope="module", autouse=True)
def end_of_processes():
    """A file of tests leaves no process behind; one that does is killed, and fails the file."""
    yield
    support.end_shared()
    with contextlib.suppress(support.Failure):  # those of a killed ptbpf need a moment
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
    """A shared target that was there when a test failed serves no other test."""
    outcome = yield
    if outcome.get_result().failed:
        support.end_shared()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """The JUnit file holds the seconds that processors worked on a test and on the processes that it waited for."""
    before = sum(os.times()[:4])
    yield
    item.user_properties.append(("processor", f"{sum(os.times()[:4]) - before:.1f}"))


def pytest_collection_modifyitems(config, items):
    """Without PTBPF_SOAK=1 there are no tests that only a soak runs."""
    if support.soak():
        return
    soaks = [item for item in items if item.get_closest_marker("soak")]
    config.hook.pytest_deselected(items=soaks)
    items[:] = [item for item in items if item not in soaks]
