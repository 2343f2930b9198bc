"""What is exported: by Prometheus' conventions, readable by its parsers, of bounded cardinality."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from storekit import SECTIONS, header, key, open_store

from nbcache.config import Settings
from nbcache.metrics import ledger, metric_names
from nbcache.metrics.meter import Meter
from nbcache.metrics.store_scan import Look, Looker
from nbcache.store import layout, reasons

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy/prometheus/nbcache.rules.yml"
DASHBOARD = ROOT / "deploy/grafana/nbcache.json"


WAITS = {"waits": {"0.1": 1, "10": 2, "inf": 1, "in vain": 1}, "waited_seconds": 50.0}


def counted():
    meter = Meter()
    meter.asked("one", 2.0)
    meter.answered("one")
    meter.job("built", 0.3)
    meter.job("crashed", 400.0)
    return meter


def exported(root, accept=""):
    look = Looker(lambda: Settings(dir=str(root))).look()
    metrics = [*metric_names.of_store(look), *metric_names.of_daemon(str(root), counted().read())]
    return metric_names.text(metrics, accept)[0].decode()


def samples(text, parser=parse):
    return {(each.name, *sorted(each.labels.items())): each.value for family in parser(text) for each in family.samples}


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path)
    assert store.publish(header(), SECTIONS).ok
    store.write_usage({"hits": {key("a"): 3}, "misses": {"new": 2, "odd": 1}, "built_seconds": 0.5, **WAITS})
    return store


@pytest.mark.parametrize(
    ("accept", "parser"), [("", parse), ("application/openmetrics-text;version=1.0.0,text/plain", parse_openmetrics)]
)
def test_it_is_read_as_it_was_meant(store, accept, parser):
    found = samples(exported(store.path, accept), parser)
    at = ("store", store.path)
    assert found["nbcache_store_up", at] == 1
    assert found["nbcache_hits_total", at] == 3
    assert found["nbcache_misses_total", ("reason", "new"), at] == 2
    assert found["nbcache_misses_total", ("reason", "unusable"), at] == 1
    assert found["nbcache_build_seconds_total", at] == 0.5
    assert found["nbcache_store_entries", at] == 1
    assert found["nbcache_store_size_bytes", at] == sum(info.size for info in store.scan())
    assert found["nbcache_store_limit_bytes", at] == 5 << 30
    assert found["nbcache_daemons", at] == 0
    waits = [found["nbcache_wait_seconds_bucket", ("le", bound), at] for bound in ("0.1", "1.0", "10.0", "+Inf")]
    assert waits == [1, 1, 3, 4]
    assert found["nbcache_wait_seconds_sum", at] == 50
    assert found["nbcache_waits_in_vain_total", at] == 1
    assert found["nbcache_daemon_jobs_total", ("outcome", "built"), at] == 1
    assert found["nbcache_daemon_job_seconds_bucket", ("le", "0.5"), at] == 1
    assert found["nbcache_daemon_job_seconds_bucket", ("le", "+Inf"), at] == 2
    assert found["nbcache_daemon_request_wait_seconds_bucket", ("le", "1.0"), at] == 0
    assert found["nbcache_daemon_request_wait_seconds_bucket", ("le", "2.5"), at] == 1
    assert found["nbcache_daemon_request_wait_seconds_sum", at] >= 2


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")
def test_promtool_finds_nothing_to_complain_about(store):
    done = subprocess.run(["promtool", "check", "metrics"], input=exported(store.path), text=True, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_label_has_few_values(store):
    hostile = ["\x1b[2J", 'a"} 1\nforged_total 5\n#', "<script>", "\u202e", "x" * 1000, "\ud800"]
    before = samples(exported(store.path))
    for number in range(300):
        words = {f"{number} {text}": 1 for text in hostile}
        assert store.write_usage({"misses": words, "errors": words, "argv0": "\x1b"})
    with open(f"{store.path}/{layout.USAGE}/long.json", "w") as file:
        json.dump({"version": 1, "misses": {"x" * 10_000_000: 1}}, file)
    text = exported(store.path)
    after = samples(text)
    assert after.keys() == before.keys()
    assert after["nbcache_misses_total", ("reason", "unusable"), ("store", store.path)] > 1000
    assert text.isascii()
    assert "forged" not in text
    reasons_told = {dict(name[1:]).get("reason") for name in after if name[0] == "nbcache_misses_total"}
    assert reasons_told == set(reasons.MISSES)


@pytest.mark.parametrize(
    "name", ["white space", 'quo"te', "back\\slash", "new\nline", "caf\u00e9", os.fsdecode(b"\xff\xfe")]
)
def test_a_store_of_any_name(tmp_path, name):
    (tmp_path / name).mkdir()
    open_store(tmp_path / name)
    text = exported(tmp_path / name)
    assert {dict(each[1:])["store"] for each in samples(text)} == {next(iter(samples(text)))[1][1]}
    assert text.count("nbcache_store_up{") == 1


@pytest.mark.parametrize("wrong", ["absent", "empty", "file", "untrusted"])
def test_a_store_that_cannot_be_used_is_down(tmp_path, wrong):
    root = tmp_path / "store"
    if wrong == "file":
        root.write_text("")
    elif wrong == "empty":
        root.mkdir()
    elif wrong == "untrusted":
        open_store(root)
        root.chmod(0o777)
    look = Looker(lambda: Settings(dir=str(root))).look()
    assert look.problem
    text = metric_names.text(metric_names.of_store(look))[0].decode()
    assert samples(text)["nbcache_store_up", ("store", str(root))] == 0
    assert "nbcache_hits_total" not in text  # zero would look as if the counter had begun anew
    assert wrong != "absent" or not root.exists()


def names_used(text):
    """The metrics that a query, or a file of rules, names: not in comments and not in quotes."""
    return set(re.findall(r"\bnbcache_[a-z_]+", re.sub(r'#.*|"[^"\n]*"', "", text)))


def known_names(store):
    return {name for name, *_ in samples(exported(store.path))}


def test_alerts_are_about_metrics_that_are_there(store):
    text = RULES.read_text()
    assert text.count("- alert: Nbcache") > 8
    assert names_used(text) <= known_names(store)
    assert text.count("summary: ") == text.count("description: ") == text.count("severity: ") == text.count("- alert: ")
    assert set(re.findall(r"severity: (\w+)", text)) == {"warning", "critical"}


def test_the_dashboard_shows_metrics_that_are_there(store):
    said = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in said["panels"] for target in panel.get("targets", ())]
    assert len(queries) > 20
    used = set().union(*map(names_used, queries))
    assert used <= known_names(store)
    # What nobody looks at is either not worth exporting or forgotten here.
    alerted = names_used(RULES.read_text())
    base = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in known_names(store)}
    shown = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in used | alerted}
    assert base - shown == {
        "nbcache_build_info",
        "nbcache_builds_total",
        "nbcache_daemon_start_time_seconds",
        "nbcache_processes_total",
        "nbcache_published_total",
        "nbcache_uncacheable_total",
    }
    ids = [panel["id"] for panel in said["panels"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")
def test_promtool_accepts_the_rules():
    done = subprocess.run(["promtool", "check", "rules", RULES], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")
def test_alerts_fire_when_they_should():
    tests = Path(__file__).with_name("alerts.test.yml")
    done = subprocess.run(["promtool", "test", "rules", tests], text=True, capture_output=True, cwd=tests.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_part_of_the_records_is_no_counter(store, monkeypatch):
    """It would jump, and Prometheus would take each jump for as many hits."""
    looker = Looker(lambda: Settings(dir=store.path))
    for _ in range(20):
        store.write_usage({"hits": {key("a"): 1}, "hit_count": 10})
    monkeypatch.setattr(ledger, "READ_BYTES", 1000)
    at = ("store", store.path)
    seen = []
    for _ in range(30):
        found = samples(metric_names.text(metric_names.of_store(looker.look()))[0].decode())
        seen.append((found["nbcache_usage_complete", at], found.get(("nbcache_hits_total", at))))
    assert seen[0] == (0, None)
    assert seen[-1] == (1, 203)
    assert {hits for _, hits in seen} == {None, 203}
    # What was known stands still while what is new can't be read.
    monkeypatch.setattr(ledger, "READ_BYTES", 1)
    store.write_usage({"hits": {key("a"): 1}, "hit_count": 10})
    look = looker.look()
    assert (look.complete, look.sums["hit_count"]) == (False, 203)
    monkeypatch.setattr(ledger, "READ_BYTES", 1000)
    assert looker.look(60.0).sums["hit_count"] == 213
    assert Looker(lambda: Settings(dir=store.path)).look(60.0).sums["hit_count"] == 213


def test_a_look_that_says_nothing():
    assert (
        samples(metric_names.text(metric_names.of_store(Look("/x")))[0].decode())[
            "nbcache_store_entries", ("store", "/x")
        ]
        == 0
    )
