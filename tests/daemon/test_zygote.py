"""What a job says where it can't even begin."""

import errno
import json
import os

import pytest

from nbcache.daemon import channel, confinement, failures, zygote


@pytest.fixture
def outside(monkeypatch):
    """A zygote whose jobs are this very process, which isn't confined."""
    monkeypatch.setattr(confinement, "settle_alone", lambda *_: None)
    monkeypatch.setattr(os, "setsid", lambda: None)
    return zygote.Zygote(None, None, "", namespaces=False)


def test_a_job_without_descriptors_says_so(outside, monkeypatch):
    def none_left(path, _mode):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    monkeypatch.setattr(zygote, "open", none_left, raising=False)
    with channel.sealed(json.dumps({"call": "math:sqrt", "args": [4.0], "bytes": 1 << 40}).encode()) as order:
        said = outside._carried_out(1, os.dup(order))
    assert failures.tells_scarcity(said["crash"]), said
