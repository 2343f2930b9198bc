"""Servers, and directories that stand for one, whose content somebody else wrote: bounded memory, time and trust."""

import os
import socket
import socketserver
import threading
import time
from types import SimpleNamespace

import pytest
from nbtest import badservers

from nbcache import config
from nbcache.remote import objects, storage, tiers
from nbcache.remote.storage import StorageError
from nbcache.remote.tiers import ANSWER_SECONDS, Tier
from nbcache.secret import Secret

NAME = "a" * 64
PIECE = b"x" * (1 << 20)


class Sending(socketserver.ThreadingTCPServer):
    """An HTTP server that sends what it is given, and counts it."""

    daemon_threads = True

    def __init__(self, content):
        self.content = content
        self.sent = 0
        self.ended = threading.Event()
        super().__init__(("127.0.0.1", 0), Line)


class Line(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(1 << 16)
        try:
            for part in self.server.content():
                self.request.sendall(part)
                self.server.sent += len(part)
        except OSError:  # nobody listens any more
            self.server.ended.set()


def sending(content):
    return badservers.running(Sending(content))


def endless():
    yield b"HTTP/1.1 200 Fine\r\nContent-Length: 100000000000\r\n\r\n"
    while True:
        yield PIECE


def dripping():
    yield b"HTTP/1.1 200 Fine\r\nContent-Length: 20000\r\n\r\n"
    while True:
        yield b"x"
        time.sleep(0.1)


def test_an_object_without_end_is_read_no_farther_than_an_object_can_be(tmp_path):
    with sending(endless) as (server, address):
        data = storage.opened(Secret(address)).get(NAME, 600)
        assert server.ended.wait(600)
        assert objects.MAX_OBJECT < len(data) < objects.MAX_OBJECT + len(PIECE)
        # What is on its way besides fits into the buffers of the kernel and the library.
        assert server.sent < 2 * objects.MAX_OBJECT
        assert objects.open_entry(data) == objects.DAMAGED


@pytest.fixture
def hurried(patient, monkeypatch):
    """On a machine that is slow, too, what ended ended at once."""
    monkeypatch.setattr(storage, "_AT_ONCE", 600.0)


def test_a_server_that_knows_no_parts_gives_all_of_it(hurried):
    content = b"y" * 20000
    with sending(lambda: [b"HTTP/1.1 200 Fine\r\nContent-Length: 20000\r\n\r\n", content]) as (_, address):
        assert storage.opened(Secret(address)).head(NAME) in {content, content[: objects.HEAD_BYTES]}


def test_a_line_that_is_ended_while_it_is_asked_says_nothing_of_the_server(hurried):
    lines = iter([[], [b"HTTP/1.1 200 Fine\r\nContent-Length: 5\r\n\r\n", b"there"]])
    with sending(lambda: next(lines)) as (_, address):
        assert storage.opened(Secret(address)).get(NAME) == b"there"


def refusing():
    said = b"upstream: error sending request"
    yield b"HTTP/1.1 429 Later\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(said) + said


def ending_late():
    time.sleep(0.3)
    yield from ()


@pytest.mark.parametrize("answer", [refusing, ending_late])
def test_what_a_server_says_and_what_was_waited_for_is_asked_once(answer, patient):
    asked = []
    with sending(lambda: asked.append(1) or answer()) as (_, address), pytest.raises(StorageError):
        storage.opened(Secret(address)).get(NAME)
    assert asked == [1]


def slow():
    yield b"HTTP/1.1 200 Fine\r\nContent-Length: 20000\r\n\r\n" + bytes(10000)
    time.sleep(1.5 * ANSWER_SECONDS)
    yield bytes(10000)


def test_who_is_patient_gets_what_takes_longer_than_a_function_waits(monkeypatch):
    # How much longer that may be isn't the subject, and nobody knows how much longer it takes.
    monkeypatch.setattr(storage, "PUT_SECONDS", 600.0)
    monkeypatch.setattr(tiers, "UPLOAD_SECONDS", 600.0)
    with sending(slow) as (_, address):
        tier = Tier(Secret(address))
        assert "in time" in tier.get(NAME, ANSWER_SECONDS).problem
        assert tier.get(NAME, 600, patient=True).data == bytes(20000)


def test_an_object_that_drips_is_given_up_and_nothing_goes_on_waiting_for_it():
    with sending(dripping) as (server, address):
        with pytest.raises(StorageError, match="in time"):
            storage.opened(Secret(address)).get(NAME)
        assert server.ended.wait(600)


def test_what_is_too_large_to_come_in_time_is_no_reason_to_leave_the_server_alone(patient, monkeypatch):
    with sending(endless) as (_, address):
        # The first piece may take as long as it takes; when it is there, there is no time for another one.
        tier = Tier(Secret(address))
        monkeypatch.setattr(storage, "GET_SECONDS", 0.0)
        monkeypatch.setattr(storage, "_MUCH", 0)
        for n in range(4):
            assert "too large" in tier.get(f"{n:064}", 600.0).problem
        assert tier.status()["alone"] == ""


def test_a_directory_holds_files_and_all_else_is_nothing(tmp_path, patient):
    folder = tmp_path / "share"
    store = storage.opened(Secret(f"file://{folder}"))
    assert store.get(NAME) is None
    store.put(NAME, b"content")
    assert store.get(NAME) == b"content"
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to(tmp_path / "private")
    (tmp_path / "private").write_text("of somebody")
    (folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(folder / "socket"))
        assert [store.get(name) or b"" for name in ("fifo", "link", "folder", "socket")] == [b""] * 4
    # And what is stored replaces a link, and nothing behind it.
    store.put("link", b"mine")
    assert (tmp_path / "private").read_text() == "of somebody" and store.get("link") == b"mine"
    with (folder / "huge").open("wb") as file:
        file.truncate(1 << 40)
    assert len(store.get("huge", 600)) <= objects.MAX_OBJECT + (1 << 20)
    (folder / "sub").touch()
    with pytest.raises(StorageError) as caught:
        storage.opened(Secret(f"file://{folder}/sub")).get(NAME)
    assert caught.value.kind == storage.UNREACHABLE


@pytest.mark.parametrize(
    "address", ["http://host:99999/x", "redis://cache:port", "http://[::1/x", "redis//:hush@host", "ftp://:hush@host"]
)
def test_an_address_that_can_be_none_is_told_from_the_beginning_without_its_secrets(address):
    settings = config.load({"NBCACHE_REMOTE": address})
    assert settings.remote == ()
    (problem,) = settings.problems
    assert problem.startswith("NBCACHE_REMOTE=… is not understood")
    assert "hush" not in problem


def test_what_breaks_inside_of_the_library_is_a_failure_like_any_other():
    class PanicError(BaseException):
        """As what Rust's panics are turned into."""

    def panic(*_):
        raise PanicError

    made = storage.opened(Secret("redis://127.0.0.1:1"))
    made._quick = made._patient = SimpleNamespace(open=panic, write=panic)
    for call in (lambda: made.get(NAME), lambda: made.put(NAME, b"")):
        with pytest.raises(StorageError, match="PanicError"):
            call()
