"""Commands say what is so: of whom, since when, and what follows."""

import os
import re
import sys
import time

import pytest

from nbcache.protocol import heartbeats
from nbcache.protocol.heartbeats import Heartbeat
from nbcache.remote import storage
from nbcache.store import usage, usage_sums

HOUR = 3600.0


def daemon(filled, *, trusts):
    """Signs of life of a daemon that accepts requests of these uids."""
    now = time.time()
    beat = Heartbeat(
        name="builder", host="h", pid=1, started=now, beat=now, workers=1, busy=0, queue=0, seconds=1.0,
        draining=False, trusts=trusts,
    )  # fmt: skip
    heartbeats.write(filled.path, beat)


def test_a_ufunc_and_its_wrapper_are_not_two_versions_of_one_function(filled, nbcache, tmp_path):
    filled.add(components=[("config/NUMBA_IS_OSX", "False")], kind="dispatcher")
    filled.add(components=[("ufunc loop", "dd->d")], kind="wrapper")
    assert nbcache("report", "--dir", filled.path, tmp_path / "page.html").status == 0
    assert "NUMBA_IS_OSX" not in (tmp_path / "page.html").read_text()
    assert "the first of its kind" in nbcache("why", "--dir", filled.path, "f").out


def test_status_says_whose_requests_a_daemon_accepts(filled, nbcache):
    daemon(filled, trusts=(0, 4_000_000))
    assert "builder accepts requests of root, 4000000\n" in nbcache("status", "--dir", filled.path).out


def test_doctor_says_that_a_user_is_not_trusted_by_the_daemon(filled, nbcache):
    daemon(filled, trusts=(4_000_000,))
    said = nbcache("doctor", "--dir", filled.path).out
    assert f"none of them accepts requests of this user (uid {os.geteuid()})" in said
    daemon(filled, trusts=(os.geteuid(),))
    assert "none of them accepts" not in nbcache("doctor", "--dir", filled.path).out


def test_doctor_takes_a_store_that_a_daemon_writes_for_well(filled, nbcache, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    daemon(filled, trusts=(4_000_000,))
    assert "what is compiled isn't shared" in nbcache("doctor", "--dir", filled.path).out
    daemon(filled, trusts=(os.geteuid(),))
    assert "no permission: a daemon builds what programs ask it for" in nbcache("doctor", "--dir", filled.path).out


def test_doctor_says_of_a_directory_that_only_commands_use_that_programs_do_not(nbcache, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".cache" / "nbcache").mkdir(parents=True)
    said = nbcache("doctor").out
    assert re.search(r"^! directory .*, which only `nbcache run` uses: NBCACHE_DIR is not set$", said, re.MULTILINE)


def test_stats_say_what_their_words_mean(filled, nbcache):
    filled.record(misses={"new": 2}, published=2)
    said = nbcache("stats", "--dir", filled.path).out
    assert re.search(r"^  new +2 +no entry has this key$", said, re.MULTILINE)
    assert re.search(r"^processes +1 +the first .* ago$", said, re.MULTILINE)
    assert re.search(r"^stored +2$", said, re.MULTILINE), "what is published has a name"


def test_a_long_reason_does_not_move_the_numbers_away(filled, nbcache):
    reason = "an object of type socket.socket (cannot pickle 'socket' object), to which global `S` of pkg:f leads"
    filled.record(uncacheable={reason: {"count": 3, "functions": ["pkg:f"]}})
    said = nbcache("stats", "--dir", filled.path).out
    assert re.search(rf"^ +3 +{re.escape(reason)}: such as pkg:f$", said, re.MULTILINE)
    assert re.search(r"^processes {1,20}1 ", said, re.MULTILINE)


def test_doctor_says_that_nothing_would_ever_hit(filled, nbcache, monkeypatch):
    monkeypatch.setenv("NBCACHE_READONLY", "1")
    done = nbcache("doctor", "--dir", filled.path)
    assert done.status == 1 and "every look-up will miss" in done.out
    filled.add(extra={"cpu": "x86-64-v9"})
    monkeypatch.setenv("NBCACHE_CPU", "x86-64")
    done = nbcache("doctor", "--dir", filled.path)
    assert "every look-up will miss" not in done.out
    assert "no entry is for x86-64: they are for x86-64-v9" in done.out


def test_doctor_says_that_a_remote_cache_without_keys_is_not_used(filled, nbcache, monkeypatch):
    monkeypatch.setenv("NBCACHE_REMOTE", "redis://127.0.0.1:1")
    assert "NBCACHE_TRUSTED_KEYS is not set: it is not used" in nbcache("doctor", "--dir", filled.path).out
    monkeypatch.setenv("NBCACHE_TRUSTED_KEYS", "unsigned")
    assert "NBCACHE_TRUSTED_KEYS is not set" not in nbcache("doctor", "--dir", filled.path).out


def test_prewarming_a_module_says_how_many_functions_it_has(filled, nbcache, tmp_path, monkeypatch):
    (tmp_path / "plain.py").write_text("")
    monkeypatch.chdir(tmp_path)
    filled.add("plain:f")
    filled.add("plain:g")
    filled.add("plain:g", [("signature", "(float64,)")])
    filled.add("other:h")
    done = nbcache("prewarm", "--dir", filled.path, "--module", "plain")
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("plain: the store has 2 of its functions\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may look at everybody's")
@pytest.mark.parametrize("command", [("status",), ("stats",), ("ls",), ("why", "f")], ids=" ".join)
def test_root_may_look_at_anybody_s_store_and_change_nothing_of_it(filled, nbcache, command):
    filled.add()
    for folder, _, files in os.walk(filled.path):
        for each in (folder, *(os.path.join(folder, name) for name in files)):
            os.chown(each, 4321, 4321)
    done = nbcache(*command, "--dir", filled.path)
    assert (done.status, done.err) == (0, "")
    done = nbcache("clear", "--yes", "--dir", filled.path)
    assert done.status == 1 and "isn't trusted" in done.err


def test_stats_begin_anew(filled, nbcache):
    header = filled.add()
    filled.record(hit_count=3, hits={header.key: 3}, misses={"new": 1})
    assert nbcache("stats", "--dir", filled.path, "--json").json["hits"] == 3
    assert nbcache("stats", "--dir", filled.path, "--zero").status == 0
    told = nbcache("stats", "--dir", filled.path, "--json").json
    assert (told["hits"], told["misses"], told["entries"]) == (0, {}, 1)
    # What was used last is still known, for eviction.
    assert header.key in usage.last_use(usage.read(filled.path))
    filled.record(hit_count=2)
    assert nbcache("stats", "--dir", filled.path, "--json").json["hits"] == 2


def test_stats_since_a_moment(filled, nbcache):
    old = filled.store.write_usage({"start": 1.0, "end": 2.0, "hit_count": 5})
    os.utime(old, (time.time() - 3 * 24 * HOUR,) * 2)
    filled.record(hit_count=2)

    def hits(*since):
        return nbcache("stats", "--dir", filled.path, "--json", *since).json["hits"]

    assert hits("--since", "2h") == 2 and hits("--since", "7d") == 7
    usage_sums.fold_all(filled.path, lambda _key: True)
    assert hits("--since", "2h") == 2 and hits("--since", "7d") == 7 and hits() == 7
    for since in ("yesterday", "-1h", "nand"):
        assert nbcache("stats", "--dir", filled.path, "--since", since).status == 2


def test_run_prints_a_line_of_what_the_program_did(filled, process):
    note = (
        "import json, os; from nbcache.config import Settings; from nbcache.store.directory import Store;"
        "Store.open(Settings(dir=os.environ['NBCACHE_DIR'])).write_usage("
        "{'hit_count': 4, 'saved_seconds': 2.0, 'builds_count': 1, 'built_seconds': 0.5}); raise SystemExit(7)"
    )
    filled.record(hit_count=9)
    done = process("run", "--dir", filled.path, "--stats", "--", sys.executable, "-c", note)
    assert done.status == 7
    assert done.err == "nbcache: 4 hits saved 2.0 s; 1 compiled in 500 ms\n"


def test_one_hit_is_said_as_one(filled, process):
    note = (
        "import os; from nbcache.config import Settings; from nbcache.store.directory import Store;"
        "Store.open(Settings(dir=os.environ['NBCACHE_DIR'])).write_usage({'hit_count': 1})"
    )
    done = process("run", "--dir", filled.path, "--stats", "--", sys.executable, "-c", note)
    assert done.err == "nbcache: 1 hit saved 0 ms; 0 compiled in 0 ms\n"


def test_what_s3_calls_an_error_is_kept_and_nothing_else_of_it():
    said = (
        "Unexpected (permanent) at write, context: { uri: http://user:secret@host/bucket, response: Parts { status: 400,"
        ' headers: {} } } => S3Error { code: "InvalidAccessKeyId", message: "secret", resource: "/secret" }'
    )
    assert storage._words_of(Exception(said)) == "it answers 400: InvalidAccessKeyId"
    said = (
        "Unexpected (temporary) at write\n\nSource:\n   NoPerm: this user has no permissions to run the 'set' command"
    )
    assert storage._words_of(Exception(said)) == "these credentials may not do that (NOPERM)"
    assert storage._kind_of(Exception(said)) == storage.DENIED
    said = "status: 403 <Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>secret</AWSAccessKeyId></Error>"
    assert storage._words_of(Exception(said)) == "these credentials may not do that (403): SignatureDoesNotMatch"
