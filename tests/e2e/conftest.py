# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Fixtures of the end-to-end tests."""

import pytest

import support
from agent_target import AgentTarget


@pytest.fixture(autouse=True)
def root(request):
    """Probes need root."""
    if not request.node.get_closest_marker("unprivileged"):
        support.require_root()


@pytest.fixture
def agent_target():
    """A process with the agent in it, one for all tests of a file: a test must leave it unchanged."""
    return support.shared(AgentTarget)
