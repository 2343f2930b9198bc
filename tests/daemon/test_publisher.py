"""What is taken from a job, and what is not."""

import json
import os
import socket

import pytest
from nbtest import denials, proc
from storekit import SECTIONS, header, open_store

from nbcache import memory_files
from nbcache.daemon import audit, channel
from nbcache.daemon.audit import Audit
from nbcache.daemon.channel import BadMessageError
from nbcache.daemon.pool import Limits
from nbcache.daemon.publisher import MAX_BYTES, Publisher, Ticket
from nbcache.protocol.requests import Request
from nbcache.store import entry, first_askers, layout, quarantine

KEY, OTHER = "ab" * 32, "cd" * 32


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "store", trusted_uids=frozenset({5, 7}))


@pytest.fixture
def log(tmp_path):
    (tmp_path / "state").mkdir()
    return tmp_path / "state/audit-5.jsonl"


@pytest.fixture
def publisher(store, log):
    return Publisher(lambda: store, Audit(str(log.parent)), lambda key: [7] if key == OTHER else [])


def take(publisher, data, ticket=None):
    """Hand bytes in as a job does; return what became of it."""
    with channel.sealed(data) as fd:
        given = os.dup(fd)
    return publisher.take(ticket or Ticket(KEY, asked=5, built=6), lambda most: channel.unsealed([given], most))


def encoded(key=KEY, **more):
    return entry.encode(header(key=key, **more), SECTIONS)


def only(store, key=KEY):
    (found,) = store.find(key, lambda reason: pytest.fail(reason))
    return found


def test_an_entry_says_where_it_comes_from_whatever_the_job_says(publisher, store, log):
    forged = {"asked": 0, "built": 0, "host": "elsewhere", "for": OTHER, "nbcache": "1.2"}
    assert take(publisher, encoded(extra=forged)).ok
    found = only(store)
    assert dict(found.header.extra) == {
        "asked": 5,
        "built": 6,
        "host": os.uname().nodename,
        "for": KEY,
        "nbcache": "1.2",
    }
    assert {name: found.section(name) for name in found.section_sizes} == SECTIONS
    (line,) = map(json.loads, log.read_text().splitlines())
    assert (line["event"], line["key"], line["asked"], line["built"]) == ("published", KEY, 5, 6)


@pytest.mark.parametrize("at", [0, 40, 300, -1])
def test_what_is_damaged_is_refused(publisher, store, log, at):
    data = bytearray(encoded())
    data[at] ^= 1
    assert not take(publisher, bytes(data)).ok
    assert not store.exists(KEY)
    assert json.loads(log.read_text())["event"] == "refused"


def asking(**changes):
    """An entry that says how to ask for it, or for something else."""
    fields = {
        "kind": "dispatcher",
        "signature": "",
        "types": {},
        "value": None,
        "modules": (),
        "path": (),
        "settings": {},
    }
    fields.update(
        function="m:f", source="0" * 32, interpreter="", toolchain="", components=(), created=0.0, host="", pid=1
    )
    line = Request(**{**fields, "key": KEY, **changes}).line()
    return entry.encode(header(key=KEY), {**SECTIONS, "request": line})


@pytest.mark.parametrize(
    "changes", [{"key": OTHER}, {"value": b"cos\nsystem\n(S'id'\ntR.", "source": None, "function": "<dynamic>:f"}]
)
def test_how_to_ask_for_an_entry_is_not_how_to_ask_for_something_else(publisher, store, changes):
    """Whoever has entries built again asks for them in their own name."""
    assert take(publisher, asking(**changes)).ok
    assert only(store).section("request") is None
    assert only(store).section("object") == SECTIONS["object"]


def test_how_to_ask_for_an_entry_stays(publisher, store):
    assert take(publisher, asking()).ok
    assert json.loads(only(store).section("request"))["key"] == KEY


def test_what_is_there_stays(publisher, store):
    assert store.publish(header(key=KEY, build="first"), SECTIONS).ok
    done = take(publisher, encoded(build="second"))
    assert (done.ok, done.reason) == (True, "already there")
    assert only(store).header.build == "first"


def test_no_variant_makes_room_for_another(publisher, store):
    for number in range(layout.MAX_SLOTS):
        assert store.publish(header(key=KEY, guard=str(number), extra={"asked": 5}), SECTIONS).ok
    before = {found.header.guard for found in store.find(KEY, pytest.fail)}
    done = take(publisher, encoded(guard="another"))
    assert (done.ok, done.reason) == (False, "there is no room for another variant")
    assert {found.header.guard for found in store.find(KEY, pytest.fail)} == before
    # As before, for whoever may write the store.
    assert store.publish(header(key=KEY, guard="another"), SECTIONS).ok


@pytest.mark.parametrize("asked", [5, 7, None])
def test_another_variant_is_only_put_beside_one_s_own(publisher, store, asked):
    assert store.publish(header(key=KEY, extra={} if asked is None else {"asked": asked}), SECTIONS).ok
    assert take(publisher, encoded(guard="another")).ok
    assert [found.header.guard for found in store.find(KEY)] == (["", "another"] if asked == 5 else [""])
    # Who asked finds it all the same.
    assert {found.header.guard for found in store.find(KEY, uid=5)} == {"", "another"}
    assert [found.header.guard for found in store.find(KEY, uid=6)] == (["", "another"] if asked == 5 else [""])


@pytest.mark.parametrize("asked", [5, 7, None])
def test_what_is_damaged_in_the_store_is_replaced_for_whom_it_was_built(publisher, store, asked):
    path = store.publish(header(key=KEY, extra={} if asked is None else {"asked": asked}), SECTIONS).path
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    assert take(publisher, encoded(build="new")).ok
    assert {found.header.build for found in store.find(KEY, uid=5) if found.sections()} == {"new"}
    assert store.holds(KEY) is (asked == 5)


def test_what_another_user_waits_for_is_built_for_that_user(publisher, store):
    assert take(publisher, encoded(OTHER)).ok
    assert not store.exists(OTHER)
    assert take(publisher, encoded(OTHER), Ticket(KEY, asked=7)).ok
    assert store.exists(OTHER)


def test_what_refers_to_what_is_one_user_s_alone_is_that_user_s_alone(publisher, store):
    """Callees are handed in before their callers."""
    ticket = Ticket(KEY, asked=5)
    assert take(publisher, encoded(OTHER), ticket).ok
    assert take(publisher, encoded(KEY), ticket).ok
    assert not store.exists(KEY)
    assert store.holds(KEY, 5)
    assert take(publisher, encoded(KEY), Ticket(KEY, asked=7)).ok
    assert only(store).header.extra["asked"] == 7


@pytest.mark.parametrize("how", ["evicted", "removed", "cleared"])
def test_a_key_remembers_who_asked_first(publisher, store, log, how):
    first_askers.begin(store.path)
    assert take(publisher, encoded(build="first")).ok
    if how == "evicted":
        assert store.gc(1).remove
    elif how == "removed":
        assert store.remove(only(store).path)
    else:
        assert store.clear()[0] == 1
    assert not store.exists(KEY)
    theirs = Ticket(KEY, asked=7)
    assert take(publisher, encoded(build="forged", extra={"of": OTHER}), theirs).ok
    assert (store.holds(KEY), store.holds(KEY, 5), store.holds(KEY, 7)) == (False, False, True)
    # What a user alone finds says so, goes to no other host, and isn't remembered when it goes.
    (found,) = store.find(KEY, uid=7)
    assert (found.header.key, found.header.extra["of"]) == (layout.room(KEY, 7), KEY)
    assert list(quarantine.for_others([found], store.path, store.trust)) == []
    assert store.remove(found.path)
    assert first_askers.first(store.path, found.header.key, store.trust) is None
    assert take(publisher, encoded(build="again")).ok
    assert only(store).header.build == "again"
    logs = [log.parent / f"audit-{uid}.jsonl" for uid in (5, 7)]
    assert [json.loads(line)["asked"] for each in logs for line in each.read_text().splitlines()] == [5, 5, 7]


def test_nothing_gets_into_another_user_s_room(publisher, store):
    assert store.publish(header(key=KEY, extra={"asked": 9}), SECTIONS).ok
    of = layout.room(KEY, 7)
    assert take(publisher, encoded(of)).reason == "its key is none that a job may name"
    assert take(publisher, encoded(KEY, guard="mine"), Ticket(KEY, asked=7)).ok
    assert [found.header.guard for found in store.find(of)] == ["mine"]


def test_an_operator_s_jobs_take_no_user_s_key(publisher, store):
    """What is prewarmed out of a store may be what a user's job said of it."""
    first_askers.begin(store.path)
    assert take(publisher, encoded()).ok
    assert store.remove(only(store).path)
    assert take(publisher, encoded(), Ticket(KEY)).reason == "another user asked for that key first"
    assert take(publisher, encoded(OTHER[::-1]), Ticket(OTHER[::-1])).ok


def test_what_came_signed_from_elsewhere_is_nobody_s_here():
    """A uid of another host is somebody else's."""
    assert first_askers.asker(header(key=KEY, extra={"asked": 5})) == 5
    assert first_askers.asker(header(key=KEY, extra={"asked": 5}, signed={"by": "x"})) == first_askers.OWNER
    assert first_askers.asker(header(key=KEY, extra={"asked": True})) == first_askers.OWNER
    assert first_askers.asker(header(key=KEY, extra={"asked": -3})) == first_askers.OWNER


@pytest.mark.parametrize("key", ["", "..", "../" * 20 + "etc/passwd", "AB" * 32, "ab" * 31])
def test_what_has_no_key_is_refused(publisher, store, key):
    before = sorted(os.walk(store.path))
    assert not take(publisher, encoded(key)).ok
    assert sorted(os.walk(store.path)) == before


def test_a_job_hands_in_so_much_and_no_more(publisher, monkeypatch):
    monkeypatch.setattr("nbcache.daemon.publisher.MAX_ENTRIES", 2)
    ticket = Ticket(KEY)
    keys = [f"{number:064x}" for number in range(1, 4)]
    assert [take(publisher, encoded(key), ticket).ok for key in keys] == [True, True, False]


def test_a_job_hands_in_so_many_bytes(store, log):
    size = len(encoded())
    publisher = Publisher(lambda: store, Audit(str(log.parent)), most=2 * size)
    ticket = Ticket(KEY, asked=5)
    assert [take(publisher, encoded(), ticket).ok for _ in range(3)] == [True, True, False]
    assert Limits().result == MAX_BYTES == 64 << 20


@pytest.mark.parametrize("asked", [5, os.geteuid(), -1])
def test_a_user_s_jobs_hand_in_so_much_in_an_hour(publisher, monkeypatch, asked):
    assert len(encoded()) < 4096, "the smallest counts as a block"
    monkeypatch.setattr("nbcache.daemon.publisher.MAX_AN_HOUR", 2 * 4096)
    hours = [100.0]
    monkeypatch.setattr("nbcache.daemon.publisher.time.monotonic", lambda: hours[0] * 3600)

    def one(number, uid=asked):
        return take(publisher, encoded(f"{number + 1:064x}"), Ticket(asked=uid)).ok

    assert [one(number) for number in range(3)] == [True, True, asked != 5]
    assert one(3, 7)
    hours[0] += 1.1
    assert one(4)


def test_what_may_still_change_is_not_looked_at():
    fd = memory_files.memory_file("open", sealable=True)
    os.write(fd, encoded())
    for fds in ([fd], [], [os.dup(0), os.dup(0)], [os.open("/etc/passwd", os.O_RDONLY)], [os.open("/", os.O_PATH)]):
        with pytest.raises(BadMessageError):
            channel.unsealed(fds, 1 << 20)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fds[0] if fds else -1)
    with channel.sealed(b"123") as sealed, pytest.raises(BadMessageError, match="longer than 2 bytes"):
        channel.unsealed([os.dup(sealed)], 2)


def test_what_is_sealed_is_read_where_it_can_not_be_shared():
    asks = "from nbcache.daemon import channel\nwith channel.sealed(b'123') as fd: print(channel.unsealed([os.dup(fd)], 3))"
    shares = "import mmap\nfrom nbcache import memory_files\nfd = memory_files.memory_file('x')\nos.ftruncate(fd, 1)\nmmap.mmap(fd, 1, mmap.MAP_SHARED)"
    assert proc.run(["-c", f"{denials.NO_SHARED_MAPPING}\n{asks}"]).stdout == "b'123'\n"
    assert "PermissionError" in proc.run(["-c", f"{denials.NO_SHARED_MAPPING}\n{shares}"]).stderr


def test_the_audit_log_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "MAX_SIZE", 2000)
    kept = Audit(str(tmp_path))
    for number in range(200):
        kept.record("published", key=KEY, function="x\n" * 10_000, number=number)
    names = {path.name for path in tmp_path.iterdir()} - {"audit.jsonl"}
    assert names == {f"audit.{number}.jsonl" for number in range(1, audit.KEPT + 1)}
    assert all(path.stat().st_size < 4000 for path in tmp_path.iterdir())
    lines = [json.loads(line) for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert max(line["number"] for line in lines) == 199
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_nobody_pushes_lines_about_another_out_of_the_audit_log(tmp_path, monkeypatch):
    """Ten thousand small entries of Mallory's turned the log over, and with it what she had had removed."""
    monkeypatch.setattr(audit, "MAX_SIZE", 2000)
    kept = Audit(str(tmp_path))
    for asked in (1234, -1):
        kept.record("removed", key=KEY, asked=asked, caused=[4321])
    for _ in range(200):
        kept.record("published", key=KEY, asked=4321)
    for name in ("audit.jsonl", "audit-1234.jsonl"):
        assert "removed" in (tmp_path / name).read_text()


def test_an_audit_log_that_can_t_be_written_is_said_once(tmp_path, caplog):
    lost = Audit(str(tmp_path / "gone"))
    for _ in range(3):
        lost.record("published")
    assert [record.message for record in caplog.records] == [
        f"the audit log in {tmp_path}/gone can't be written: No such file or directory"
    ]


def test_an_end_that_says_more_than_once_that_it_was_reset_is_the_end():
    class Reset(socket.socket):
        """As gVisor's sockets, which lose what came before."""

        def recvmsg(self, *_):
            raise ConnectionResetError

    with Reset(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
        assert channel.Channel(end).receive() is None


def test_messages_that_are_none():
    ours, theirs = channel.Channel.pair()
    with theirs:
        for said in (b"{", b"[]", b"\xff", b"[" * 60000, b'{"a": 1}' + b" " * channel.MAX_MESSAGE):
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            theirs.send(said)
            with pytest.raises(BadMessageError):
                ours.receive()
        theirs.send(b'{"a": 1}')
        assert ours.receive() == ({"a": 1}, [])
        assert ours.pid == os.getpid()
        with pytest.raises(BlockingIOError):
            ours.receive()
    assert ours.receive() is None
    ours.close()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
@pytest.mark.parametrize("through", ["their directory", "their link"])
def test_no_audit_log_is_written_into_a_stranger_s_directory(place, caplog, through):
    """A file there of that name may be any file of ours, under a second name."""
    ours, theirs = place / "passwd", place / "theirs"
    ours.write_text("ours\n")
    (theirs / "state").mkdir(parents=True)
    os.link(ours, theirs / "state/audit.jsonl")
    for path in (theirs, theirs / "state"):
        os.chown(path, 4321, 4321)
    if through == "their link":
        (place / "link").symlink_to(theirs / "state")
        os.chown(place / "link", 4321, 4321, follow_symlinks=False)
    written = Audit(str(place / "link" if through == "their link" else theirs / "state"))
    written.record("published", function="x")
    assert ours.read_text() == "ours\n"
    link = f"lies behind the link {place}/link, which " if through == "their link" else ""
    assert f"can't be written: it {link}is owned by uid 4321" in caplog.text


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_no_audit_log_is_written_behind_a_stranger_s_link_to_a_directory_of_ours(place, caplog):
    """It may be one that came out of an archive of theirs."""
    (place / "unpacked").mkdir()
    (place / "link").symlink_to(place / "unpacked")
    Audit(str(place / "link")).record("published", function="x")
    assert os.listdir(place / "unpacked") == ["audit.jsonl"]
    os.unlink(place / "unpacked/audit.jsonl")
    os.chown(place / "link", 4321, 4321, follow_symlinks=False)
    Audit(str(place / "link")).record("published", function="x")
    assert os.listdir(place / "unpacked") == []
    assert f"can't be written: it lies behind the link {place}/link, which is owned by uid 4321" in caplog.text
