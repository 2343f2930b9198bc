"""Whose requests are carried out, and whose modules imported: real uids, real processes."""

from __future__ import annotations

import json
import os
import sys

import pytest
from nbtest import daemons, proc, usage, users
from nbtest.kinds import LIB

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
STRANGER = 4321


@pytest.fixture
def main(place):
    folder = place / "code"
    folder.mkdir(mode=0o755)
    (folder / "lib.py").write_text(LIB)
    (folder / "main.py").write_text("import lib\nprint(lib.f(1))\n")
    return folder / "main.py"


def asked(main, store, trusted="", **more):
    """Run a client; return its outcome, the reasons why it was refused, and the log."""
    extra = {"NBCACHE_TRUSTED_UIDS": trusted} if trusted else {}
    with daemons.daemon(store, extra=extra) as daemon:
        client_extra = {**daemons.WAITING, **extra, **more.pop("extra", {})}
        outcome = proc.run([main], store, client_extra, **more)
        assert outcome.stdout == "40\n", outcome.stderr
        # What a job used is written down after its entry, which is all that a client needs.
        daemon.settle()
        return [failure["reason"] for failure in daemons.failures(store)], daemon.log


def built_by_the_daemon(store):
    return [record for record in usage.records(store) if record["builds"] and not record["argv0"].endswith("main.py")]


@pytest.mark.every(2)
@pytest.mark.parametrize("trusted", [False, True])
def test_a_stranger_s_request(main, place, trusted):
    python = proc.interpreter_for(54321)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    reasons, log = asked(
        main, place / "store", "54321" if trusted else "", user=54321, python=python, extra=proc.packages()
    )
    if trusted:
        assert not any("owned by uid 54321" in reason for reason in reasons)
        assert "rejected the request" not in log
    else:
        assert reasons == []
        assert not built_by_the_daemon(place / "store")


@pytest.mark.every(2)
@pytest.mark.parametrize("trusted", [False, True])
def test_a_stranger_s_module(main, place, trusted):
    os.chown(main.with_name("lib.py"), STRANGER, STRANGER)
    reasons, _log = asked(main, place / "store", str(STRANGER) if trusted else "")
    if trusted:
        assert reasons == []
        assert built_by_the_daemon(place / "store")
    else:
        assert all("module lib is owned by uid 4321" in reason for reason in reasons)
        assert reasons


@pytest.mark.every(2)
@pytest.mark.parametrize("trusted", [False, True])
def test_a_stranger_s_directory(main, place, trusted):
    os.chown(main.parent, STRANGER, STRANGER)
    reasons, _log = asked(main, place / "store", str(STRANGER) if trusted else "")
    if trusted:
        assert reasons == []
    else:
        assert all("which is owned by uid 4321" in reason for reason in reasons)
        assert reasons


def test_a_directory_that_others_may_write(main, place):
    main.parent.chmod(0o777)
    reasons, _log = asked(main, place / "store")
    assert all("which is writable by others" in reason for reason in reasons)
    assert reasons


@pytest.mark.long
def test_a_bytecode_file_that_others_may_have_put_there(main, place):
    """Python executes what lies in __pycache__ without looking at the source again."""
    cache = main.parent / "__pycache__"
    cache.mkdir()
    cache.chmod(0o777)
    reasons, _log = asked(main, place / "store")
    assert all("which is writable by others" in reason for reason in reasons)
    assert reasons


@pytest.mark.long
def test_a_stranger_s_interpreter(main, place):
    """A link to Python in somebody's virtual environment makes theirs the packages that are imported."""
    environment = place / "venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").symlink_to(sys.executable)
    for path in (environment, environment / "bin"):
        os.chown(path, STRANGER, STRANGER)
    reasons, _log = asked(main, place / "store", python=str(environment / "bin/python"), extra=proc.packages())
    assert all("the interpreter" in reason and "owned by uid 4321" in reason for reason in reasons)
    assert reasons


@pytest.mark.long
def test_a_stranger_s_warm_list(place):
    (place / "lib.py").write_text(LIB)
    main, warm, store = place / "main.py", place / "warm.jsonl", place / "store"
    main.write_text("import lib\nprint(lib.f(1))\n")
    assert proc.run([main], place / "first", {"NBCACHE_RECORD": str(warm)}).status == 0
    command = ["-m", "nbcache", "prewarm", "--dir", store, warm]
    os.chown(warm, STRANGER, STRANGER)
    refused = proc.run(command, cwd=place)
    assert refused.status != 0
    assert refused.stderr.splitlines() == [
        f"nbcache: {warm}: is owned by uid {STRANGER}, who isn't trusted (see NBCACHE_TRUSTED_UIDS)"
    ]
    assert not usage.read(store).builds
    trusted = proc.run(command, None, {"NBCACHE_TRUSTED_UIDS": str(STRANGER)}, cwd=place)
    assert (trusted.status, trusted.stderr) == (0, "")
    os.chown(warm, 0, 0)
    warm.chmod(0o666)
    assert "is writable by others" in proc.run(command, cwd=place).stderr


@pytest.mark.long
@pytest.mark.parametrize("how", ["link", "move", "hard link", "by root"])
def test_a_warm_list_that_a_stranger_named(place, how):
    """A file of a trusted user may hold what others wrote: a log, say. So it matters who said that it is the list."""
    (place / "lib.py").write_text(LIB)
    main, log, shared, store = place / "main.py", place / "logs/log", place / "shared", place / "store"
    main.write_text("import lib\nprint(lib.f(1))\n")
    log.parent.mkdir()
    log.parent.chmod(0o777)
    shared.mkdir()
    shared.chmod(0o777 if how == "move" else 0o1777)
    assert proc.run([main], place / "first", {"NBCACHE_RECORD": str(log)}).status == 0
    if how == "hard link":  # which a kernel may deny to others
        os.link(log, shared / "list")
    else:
        name = os.rename if how == "move" else os.symlink
        ids = (0, 0) if how == "by root" else (STRANGER, STRANGER)
        users.become(lambda: name(log, shared / "list"), *ids)
    if how in {"link", "by root"}:
        log.parent.chmod(0o755)
    done = proc.run(["-m", "nbcache", "prewarm", "--dir", store, shared / "list"], cwd=place)
    if how == "by root":
        assert (done.status, done.stderr) == (0, "")
        return
    assert done.status == 1
    said = {
        "link": f"lies behind the link {shared}/list, which is owned by uid {STRANGER}, who isn't trusted",
        "move": f"lies in {shared}, which is writable by others",
        "hard link": "has a second name (a hard link)",
    }
    assert f"nbcache: {shared}/list: {said[how]}" in done.stderr
    assert not usage.read(store).builds


@pytest.mark.long
@pytest.mark.parametrize("of", ["file", "directory"])
def test_prewarming_a_stranger_s_module(place, of):
    """The current directory is looked in first, be it /tmp."""
    folder, proof = place / "here", place / "executed"
    folder.mkdir(mode=0o755)
    (folder / "lib.py").write_text(f"open({str(proof)!r}, 'w').close()\n")
    os.chown(folder / "lib.py" if of == "file" else folder, STRANGER, STRANGER)
    command = ["-m", "nbcache", "prewarm", "--dir", place / "store", "--module", "lib"]
    refused = proc.run(command, cwd=folder, extra={"PYTHONSAFEPATH": "1"})
    assert refused.status == 1
    assert f"owned by uid {STRANGER}, who isn't trusted" in refused.stderr
    assert not proof.exists()
    trusted = proc.run(command, None, {"PYTHONSAFEPATH": "1", "NBCACHE_TRUSTED_UIDS": str(STRANGER)}, cwd=folder)
    assert (trusted.status, trusted.stderr) == (0, "")
    assert proof.exists()


@pytest.mark.long
@pytest.mark.parametrize("into", ["requests", "requests/0", "requests/4321"])
def test_a_trusted_user_s_file_that_a_stranger_moves(main, place, into):
    """A file keeps its owner when it is renamed; who may write the directory that it lay in may do that."""
    store, theirs, asked = place / "store", place / "theirs", place / "asked"
    theirs.mkdir(mode=0o777)
    theirs.chmod(0o777)
    assert proc.run([main], place / "other", {"NBCACHE_RECORD": str(asked)}).status == 0
    line = asked.read_bytes().splitlines()[0]
    with daemons.daemon(store) as daemon:
        name = f"{json.loads(line)['key']}.000000000000-{'0' * 16}.json"
        (theirs / name).write_bytes(line)

        def move():
            target = f"{store}/v1/{into}"
            os.makedirs(target, exist_ok=True)
            os.rename(f"{theirs}/{name}", f"{target}/{name}")

        if into == "requests/0":
            assert proc.run([main], store, daemons.WAITING).status == 0
            with pytest.raises(AssertionError, match="PermissionError"):
                users.become(move, STRANGER, STRANGER)
            return
        users.become(move, STRANGER, STRANGER)
        # It has been through the spool since: a trusted user's own request is answered.
        (main.parent / "after.py").write_text("from numba import njit\n@njit\ndef g(x):\n    return x + 5\n")
        (main.parent / "second.py").write_text("import after\nprint(after.g(1))\n")
        proc.run([main.parent / "second.py"], store, daemons.WAITING)
        daemon.says("built after:g")
        beats = daemon.heartbeat()["beat"]
        daemons.wait_for(lambda: daemon.heartbeat()["beat"] > beats + 2)
        assert "built lib:f" not in daemon.log
        assert not built_by_the_daemon_of(store, "lib:f")


def built_by_the_daemon_of(store, function):
    return [
        build for record in built_by_the_daemon(store) for build in record["builds"] if function in build["function"]
    ]


@pytest.mark.long
def test_a_stranger_s_warm_list_is_no_content_of_a_bundle(place):
    """What `nbcache prewarm` doesn't carry out, `nbcache bundle` doesn't either: and sign it, least of all."""
    (place / "lib.py").write_text(LIB)
    main, warm, key = place / "main.py", place / "warm.jsonl", place / "key"
    main.write_text("import lib\nprint(lib.f(1))\n")
    assert proc.run([main], place / "first", {"NBCACHE_RECORD": str(warm)}).status == 0
    assert proc.run(["-m", "nbcache", "key", "generate", "ci", key]).status == 0
    os.chown(warm, STRANGER, STRANGER)
    signs = {"NBCACHE_SIGNING_KEY": str(key)}
    refused = proc.run(["-m", "nbcache", "bundle", place / "bundle", warm], place / "store", signs, cwd=place)
    assert refused.status == 1
    assert f"owned by uid {STRANGER}, who isn't trusted" in refused.stderr
    assert not (place / "bundle").exists()
