"""Where metrics are to be had: by a real client, whoever else connects, and whatever is in the place."""

import gc
import http.client
import logging
import os
import socket
import stat
import threading
import time

import pytest
from nbtest import ports
from nbtest.daemons import MUCH, wait_for

from nbcache.metrics import exposing
from nbcache.metrics.exposing import Address, BadAddressError, Exposer, read_address

TEXT = b"answer 42\n"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Nobody is given up who is only slow to ask."""
    monkeypatch.setattr(exposing, "REQUEST_SECONDS", MUCH)


class Running:
    """An exposer that is closed at the end, and whatever it said."""

    def __init__(self, address, render=lambda accept: (TEXT, f"text/plain; got={accept.strip()}")):
        self.exposer = Exposer(read_address(str(address)), render)

    def __enter__(self):
        self.exposer.start()
        return self

    def __exit__(self, *_):
        self.exposer.close()


def get(address, path="/metrics", method="GET", **headers):
    """Ask as Prometheus does; (status, content type, body)."""
    connection = http.client.HTTPConnection("127.0.0.1", address, timeout=600)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()
    finally:
        connection.close()


def answers(address):
    try:
        return get(address)[0] == 200
    except OSError:
        return False


@pytest.fixture
def address():
    return ports.free()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("9464", Address("127.0.0.1", 9464)),
        ("localhost:9464", Address("127.0.0.1", 9464)),
        ("[::1]:9464", Address("::1", 9464)),
        ("::1:9464", Address("::1", 9464)),
        ("0.0.0.0:1", Address("0.0.0.0", 1)),
        ("/var/lib/node_exporter/nbcache.prom", Address(file="/var/lib/node_exporter/nbcache.prom")),
    ],
)
def test_an_address(text, meant):
    assert read_address(text) == meant
    assert meant.open_to_others == (meant.host == "0.0.0.0")
    assert str(meant)


@pytest.mark.parametrize(
    "text",
    ["", "x", "0", "65536", "-1", "1e3", "9" * 5000, "host.example:1", ":", "[::1]", "/a\0b.prom", "/a", "\u0663"],
)
def test_no_address(text):
    with pytest.raises(BadAddressError):
        read_address(text)


def test_metrics_are_to_be_had(address):
    with Running(address):
        wait_for(lambda: answers(address))
        assert get(address, Accept="some/thing") == (200, "text/plain; got=some/thing", TEXT)
        assert get(address, "/") == get(address, "/metrics?x=1") == (200, "text/plain; got=", TEXT)
        assert get(address, method="HEAD") == (200, "text/plain; got=", b"")
        assert get(address, "/etc/passwd")[0] == 404
        assert get(address, method="POST")[0] == 405
    assert not answers(address)


def test_only_loopback_listens_by_default():
    port = ports.free()
    with Running(port):
        wait_for(lambda: answers(port))
        with socket.socket() as other:
            other.settimeout(600)
            other.bind(("127.0.0.1", 0))
            # Every address of 127/8 is this machine's; the socket is bound to one.
            assert other.connect_ex(("127.0.0.2", port)) != 0


def test_an_open_address_is_said_to_be_open(caplog):
    port = ports.free()
    with Running(f"0.0.0.0:{port}"):
        wait_for(lambda: answers(port))
    assert "reachable from other machines" in caplog.text


def test_what_is_taken_is_tried_again(address, caplog, monkeypatch):
    monkeypatch.setattr(exposing, "RETRY_SECONDS", 0.1)
    with Running(address) as first:
        wait_for(lambda: answers(address))
        with Running(address, lambda _: (b"second\n", "text/plain")):
            wait_for(lambda: "in use" in caplog.text)
            time.sleep(0.5)
            assert caplog.text.count("in use") == 1
            assert get(address)[2] == TEXT
            first.exposer.close()
            wait_for(lambda: answers(address))
            assert get(address)[2] == b"second\n"


@pytest.mark.parametrize("path", ["absent/metrics.prom", "x" * 300 + "/s.prom"])
def test_a_place_that_cannot_be_is_said_once(tmp_path, caplog, monkeypatch, path):
    monkeypatch.setattr(exposing, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(exposing, "TEXTFILE_SECONDS", 0.05)
    with Running(tmp_path / path):
        wait_for(lambda: "can't be served" in caplog.text)
        time.sleep(0.3)
    assert caplog.text.count("can't be served") == 1


@pytest.mark.every(2)
@pytest.mark.parametrize("how", ["reads nothing", "says nothing"])
def test_nobody_waits_behind_who_is_slow(address, how):
    """However long a request may take: here that is for ever."""
    # More than fits into the buffers of a socket.
    with Running(address, lambda _accept: (b"x" * (32 << 20), "text/plain")):
        wait_for(lambda: answers(address))
        slow = []
        for _ in range(3 * exposing.MAX_CONNECTIONS):
            each = socket.socket()
            slow.append(each)
            each.settimeout(MUCH)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.connect(("127.0.0.1", address))
            if how == "reads nothing":
                each.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        for _ in range(2):
            assert get(address)[0] == 200
        for each in slow:
            each.close()
    gc.collect()


def test_who_says_nothing_keeps_nobody_waiting_for_long(address, monkeypatch):
    monkeypatch.setattr(exposing, "REQUEST_SECONDS", 1.0)
    with Running(address):
        wait_for(lambda: answers(address))
        threads = threading.active_count()
        silent = []
        for number in range(60):
            each = socket.socket()
            each.settimeout(0.2)
            silent.append(each)
            try:
                each.connect(("127.0.0.1", address))
                each.send(b"GET /metrics" if number % 2 else b"x" * 100)
            except OSError:
                break
        assert threading.active_count() <= threads + exposing.MAX_CONNECTIONS
        for each in silent:
            each.close()
        wait_for(lambda: answers(address))
    gc.collect()


@pytest.mark.parametrize(
    "said",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\xff\xfe \x00\r\n\r\n",
        b"GET /metrics HTTP/9 x y\r\n:\r\n\r\n",
        b"A" * 100_000,
        b"",
    ],
)
def test_whatever_is_said_is_survived(address, said):
    with Running(address):
        wait_for(lambda: answers(address))
        with socket.socket() as each:
            each.settimeout(600)
            each.connect(("127.0.0.1", address))
            try:
                each.sendall(said)
                each.shutdown(socket.SHUT_WR)
                while each.recv(4096):
                    pass
            except OSError:
                pass
        assert answers(address)


def test_a_fault_while_rendering_ends_nothing(address, caplog):
    turns = iter([ValueError("of ours"), None])

    def render(_):
        fault = next(turns, None)
        if fault is not None:
            raise fault
        return TEXT, "text/plain"

    with Running(address, render):
        wait_for(lambda: answers(address))
        assert get(address)[2] == TEXT
    assert "of ours" in caplog.text


def test_a_file_for_node_exporter(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(exposing, "TEXTFILE_SECONDS", 0.05)
    caplog.set_level(logging.INFO)
    path = tmp_path / "nbcache.prom"
    with Running(path):
        wait_for(path.exists)
        assert path.read_bytes() == TEXT
        path.unlink()
        wait_for(path.exists)
    assert os.listdir(tmp_path) == ["nbcache.prom"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o444 == 0o444


def test_a_file_that_is_a_fifo_is_left_alone(tmp_path, caplog):
    os.mkfifo(tmp_path / "nbcache.prom")
    with Running(tmp_path / "nbcache.prom"):
        wait_for(lambda: "not a regular file" in caplog.text)
    assert stat.S_ISFIFO(os.stat(tmp_path / "nbcache.prom").st_mode)
