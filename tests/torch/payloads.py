# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The registry of payloads: what the comparison with torch.profiler runs.

A payload is a function that prepares (models, warm-up, compiled code) and returns another function
that does the work to be compared. The work runs the same operators in the same order each time and
returns values for the digest, or None where values are not defined (uninitialised memory).
Knows nothing of profilers. Must run on every torch of the matrix: what a version lacks raises Skip.
"""

import random
import warnings

import torch

warnings.filterwarnings("ignore")


class Skip(Exception):
    """This torch lacks what the payload needs; the text says what."""


class Payload:
    def __init__(self, prepare, group, observe, ordered, readable, steady, threads, only, windows, brief):
        self.name = prepare.__name__
        self.prepare = prepare
        self.group = group  # payloads of one group share a process
        self.observe = observe  # also run under ExecutionTraceObserver: it sees all threads in every
        #                         version, but its stack is wrong after an operator raised
        self.readable = readable  # False: torch's own tools crash when they read its arguments;
        #                           "profiler": all but ExecutionTraceObserver
        self.steady = steady  # False: torch's profiler changes what it does, so only one run seen by both is compared
        self.ordered = ordered  # False: the order depends on other processes; compared as a bag
        self.threads = threads  # starts threads that allocate, whose memory torch's profiler does not record
        self.only = only  # "memory": only for the windows of memory
        self.windows = windows  # only for these (runner_windows.py)
        self.brief = brief  # with --brief only for these


REGISTRY = {}
VERSION = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])


def payload(group="eager", observe=False, ordered=True, readable=True, steady=True, threads=False, only=None,
            windows=None, brief=None):
    """Registers prepare() under its name."""

    def register(prepare):
        REGISTRY[prepare.__name__] = Payload(prepare, group, observe, ordered, readable, steady, threads, only, windows,
                                             brief or windows)
        return prepare

    return register


def seed():
    random.seed(20)
    torch.manual_seed(20)


def need(condition, what):
    if not condition:
        raise Skip(what)


def load_all():
    """Imports the modules that register payloads; the order of import is the order of the run."""
    import payloads_eager  # noqa: F401
    import payloads_args  # noqa: F401
    import payloads_calls  # noqa: F401
    import payloads_broad  # noqa: F401
    import payloads_threads  # noqa: F401
    import payloads_models  # noqa: F401
    import payloads_compile  # noqa: F401
    import payloads_memory  # noqa: F401

    return REGISTRY
