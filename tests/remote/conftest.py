"""Hosts, and the servers between them."""

import json

import pytest
from nbtest import proc, remotes

from nbcache.remote import storage, tiers
from nbcache.remote.objects import MAX_OBJECT


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
def patient(monkeypatch):
    """Who asks a server from this process gives none up that is only slow, as NBTEST_PATIENT has it of others."""
    for module, names in ((storage, ("GET_SECONDS", "PUT_SECONDS")), (tiers, ("ANSWER_SECONDS", "UPLOAD_SECONDS"))):
        for name in names:
            monkeypatch.setattr(module, name, 600.0)
    monkeypatch.setattr(tiers, "CONNECT_SECONDS", 600.0)
    for asks in (storage.Storage.get, storage.Storage.head, storage.Folder.head):
        monkeypatch.setattr(asks, "__defaults__", (600.0,))
    monkeypatch.setattr(storage.Folder.get, "__defaults__", (600.0, MAX_OBJECT))


@pytest.fixture
def command():
    """Runs a command of nbcache on a host; returns what it printed as JSON."""

    def run(argv, env):
        outcome = proc.run(["-m", "nbcache", *argv], extra=env)
        return json.loads(outcome.stdout)

    return run
