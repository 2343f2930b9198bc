"""Hosts, and the servers between them."""

import json

import pytest
from nbtest import proc, remotes


@pytest.fixture
def fleet(tmp_path):
    made = remotes.Fleet(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=sorted(remotes.SERVERS))
def server(request, tmp_path):
    """The address of each kind of server in turn."""
    with remotes.SERVERS[request.param](tmp_path) as (address, _process):
        yield address


@pytest.fixture
def command():
    """Runs a command of nbcache on a host; returns what it printed as JSON."""

    def run(argv, env):
        outcome = proc.run(["-m", "nbcache", *argv], extra=env)
        return json.loads(outcome.stdout)

    return run
