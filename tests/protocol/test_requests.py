"""Requests as data: what is written is read again, and nothing else is taken for a request."""

import json
import random

import pytest
from nbtest import fuzzing
from nbtest.samples import BY_REFERENCE

from nbcache import capabilities
from nbcache.protocol import requests
from nbcache.protocol.requests import BadRequestError
from nbcache.store import layout

BY_VALUE = BY_REFERENCE._replace(function="<dynamic>:<lambda>", source=None, value=b"\x80\x04\x00\xff")


KERNEL = BY_REFERENCE._replace(kind="cuda kernel", cc="9.0a", toolkit={"toolkit/nvvm": "0123"})
WITH_DEVICE = BY_VALUE._replace(cc="8.0")


@pytest.mark.parametrize(
    "request_", [BY_REFERENCE, BY_VALUE, KERNEL, WITH_DEVICE], ids=["reference", "value", "kernel", "device"]
)
def test_what_is_written_is_read_again(request_):
    line = request_.line()
    assert b"\n" not in line
    assert requests.read(line) == request_
    assert requests.read(line + b"\n") == request_


def changed(**fields):
    """The line of a request with some fields changed; None takes one out."""
    said = json.loads(BY_REFERENCE.line())
    for name, value in fields.items():
        said[name] = value
        if value is None:
            del said[name]
    return json.dumps(said).encode()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b"[]", "not a request"),
        (b'{"nbcache": "failure"}', "not a request"),
        (changed(version=3), "version must be 4, not 3"),
        (changed(version=[2]), "version must be 4, not [2]"),
        (changed(kind="cuda kernel"), "field cc"),
        (changed(toolkit="9.0"), "field toolkit"),
        (b'{"nbcache": "request", "version": 4}', "key must be there"),
        (changed(cc="8.0a"), "field cc"),
        (changed(cc="9.0; rm"), "field cc"),
        (changed(cc=9.0), "field cc"),
        (changed(toolkit={"nvvm": 3}), "field toolkit"),
        (changed(version=True), "version must be 4, not True"),
        (changed(kind="profile"), "a reserved key"),
        (changed(key=layout.reserved("a lane")), "the key of a function"),
        (changed(kind="profile", key=layout.reserved("a lane")), "field types"),
        (changed(key="../../etc/passwd"), "field key"),
        (changed(key=None), "key must be there"),
        (changed(kind="shell"), "field kind"),
        (changed(kind=["dispatcher"]), "field kind"),
        (changed(function="os"), "field function"),
        (changed(function="../x:y"), "field function"),
        (changed(modules=["os; import sys"]), "field modules"),
        (changed(modules=["m"] * 5000), "field modules"),
        (changed(path="/a"), "field path"),
        (changed(path=["a\0b"]), "field path"),
        (changed(settings={"LD_PRELOAD": "x"}), "field settings"),
        (changed(settings={"NUMBA_OPT": 3}), "field settings"),
        (changed(value="***"), "value must be"),
        (changed(source="x"), "source must be"),
        (changed(source=None, value="AA=="), "source must be there"),
        (changed(value="AA=="), "source must be there"),
        (changed(components=[["a"]]), "field components"),
        (changed(created="now"), "field created"),
        (changed(created=True), "field created"),
        (changed(signature="x" * 5000), "field signature"),
        (changed(pid="one"), "field pid"),
        (BY_REFERENCE.line().replace(b"1.5", b"NaN"), "not JSON"),
        (b" " * (requests.MAX_REQUEST + 1), "longer than"),
    ],
)
def test_what_is_no_request_is_told_in_one_line(line, complaint):
    with pytest.raises(BadRequestError) as caught:
        requests.read(line)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_for_a_device_says_so_to_people():
    assert KERNEL.what == f"{BY_REFERENCE.what} for 9.0a"
    assert WITH_DEVICE.what == BY_VALUE.what
    # A function that can't be built for want of a device may be asked for by who has one.
    assert WITH_DEVICE.scope != BY_VALUE.scope


@pytest.mark.parametrize(("text", "cc"), [("8.0", (8, 0, "")), ("9.0", (9, 0, "a")), (" 12.0a ", (12, 0, "a"))])
def test_compute_capabilities_as_people_write_them(text, cc):
    assert capabilities.named(text) == cc
    assert capabilities.named(capabilities.spelt(cc)) == cc


def test_a_request_that_is_too_long_is_not_written():
    with pytest.raises(BadRequestError, match="longer than"):
        _ = BY_VALUE._replace(value=b"x" * requests.MAX_REQUEST).line()


def test_10000_mutated_requests():
    """Each is read as a request or refused; nothing else is raised."""
    rng = random.Random(7)
    lines = [BY_REFERENCE.line(), BY_VALUE.line(), KERNEL.line()]
    read, complaints = 0, set()
    for _ in range(10_000):
        try:
            found = requests.read(fuzzing.mutated(rng, lines))
        except BadRequestError as error:
            complaints.add(str(error))
        else:
            read += 1
            assert requests.read(found.line()) == found
    assert read < 9_000
    assert not any("\n" in complaint for complaint in complaints)
