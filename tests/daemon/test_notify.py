"""What the service manager is told, over a real socket."""

import logging
import os
import socket
import time

import pytest

from nbcache.daemon import presence
from nbcache.daemon.presence import Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """A manager's socket; its ``name`` is what NOTIFY_SOCKET would be."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@nbcache-test-{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name.replace("@", "\0", 1) if name.startswith("@") else name)
        listener.settimeout(600)
        yield name, listener


def told(listener):
    return listener.recv(4096).decode().split("\n")


def test_each_message(manager):
    name, listener = manager
    notifier = Notifier({"NOTIFY_SOCKET": name})
    notifier.ready("4 workers")
    assert told(listener) == ["READY=1", "STATUS=4 workers"]
    notifier.ready("idle\nREADY=1\x00é\ud800")
    assert told(listener) == ["READY=1", "STATUS=idle READY=1\x00é?"]
    notifier.alive()
    assert told(listener) == ["WATCHDOG=1"]
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    notifier.reloading()
    reloading, stamp = told(listener)
    assert reloading == "RELOADING=1"
    assert before <= int(stamp.removeprefix("MONOTONIC_USEC=")) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    notifier.stopping()
    assert told(listener) == ["STOPPING=1"]


def everything(notifier):
    notifier.ready("s")
    notifier.reloading()
    notifier.alive()
    notifier.stopping()


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": ""}])
def test_without_a_manager_nothing_happens(environ, caplog):
    caplog.set_level(logging.DEBUG)
    everything(Notifier(environ))
    assert caplog.records == []


@pytest.mark.parametrize(
    "name", ["/nonexistent/socket", "@nobody-listens-here", "vsock:2:1234", "relative", "/" + "x" * 200, "/a\0b", "@"]
)
def test_a_broken_socket_is_said_at_debug_alone(name, caplog):
    caplog.set_level(logging.DEBUG)
    everything(Notifier({"NOTIFY_SOCKET": name}))
    assert caplog.records
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


def test_a_manager_that_does_not_read_holds_nobody_up(manager, monkeypatch):
    name, _ = manager
    monkeypatch.setattr(presence, "_SEND_SECONDS", 0.05)
    notifier = Notifier({"NOTIFY_SOCKET": name})
    with open("/proc/sys/net/unix/max_dgram_qlen") as file:
        queue = int(file.read())
    for _ in range(queue + 20):
        notifier.alive()
