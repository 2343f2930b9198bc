"""A daemon's metrics, scraped while it works: by its own text's parser, and by a real Prometheus where there is one."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from nbtest import ports, proc
from nbtest.daemons import WAITING, daemon, wait_for
from prometheus_client.parser import text_string_to_metric_families as parse

PROGRAM = """
import sys
from numba import njit

@njit
def f(x):
    return x + 1

print(f(1), [name for name in sys.modules if name.startswith(("prometheus_client", "nbcache.metrics"))])
"""


def get(port, path="/metrics"):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.read().decode()
    except (OSError, urllib.error.URLError):
        return ""


def scrape(port):
    """All samples; the label `store` left out."""
    return {
        (each.name, *sorted(value for name, value in each.labels.items() if name != "store")): each.value
        for family in parse(get(port))
        for each in family.samples
    }


def program(tmp_path, store, **extra):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = proc.run([path], store, {**WAITING, **extra})
    assert done.stdout == "2 []\n", done.stderr  # and it imported nothing for the metrics
    return done


def test_a_daemon_tells_what_it_does(place, monkeypatch):
    store, port = place / "store", ports.free()
    with daemon(store, "--workers", "1", "--metrics", str(port)) as running:
        wait_for(lambda: scrape(port).get(("nbcache_store_up",)) == 1)
        program(place, store)
        # A job is counted when it is answered; its entry is all that a client needs.
        running.settle()
        drop = store / "v1/requests" / str(os.geteuid())
        drop.mkdir(exist_ok=True)
        (drop / f"{'a' * 64}.0.json").write_text("{}")
        found = wait_for(lambda: (all_of := scrape(port)).get(("nbcache_daemon_rejected_requests_total",)) and all_of)
        assert found["nbcache_daemon_jobs_total", "built"] >= 1
        assert found["nbcache_daemon_jobs_total", "crashed"] == 0
        assert found["nbcache_daemon_job_seconds_count",] == found["nbcache_daemon_jobs_total", "built"]
        assert found["nbcache_daemon_request_wait_seconds_count",] == found["nbcache_daemon_jobs_total", "built"]
        assert found["nbcache_daemon_request_wait_seconds_sum",] < 3600
        assert found["nbcache_daemon_longest_wait_seconds",] == 0
        # The store is looked at every ten seconds, which may have been after the hit and before the failure.
        wanted = ("nbcache_hits_total",), ("nbcache_failures",)
        later = wait_for(lambda: all(map((all_of := scrape(port)).get, wanted)) and all_of)
        assert later["nbcache_daemons",] == later["nbcache_workers",] == 1
        assert later["nbcache_failures",] == 1
        assert running.stop() == 0
    assert get(port) == ""


@pytest.mark.long
def test_a_port_that_is_taken_keeps_no_daemon_from_serving(place):
    store = place / "store"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with daemon(store, "--metrics", str(taken.getsockname()[1])) as running:
            wait_for(lambda: "can't be served" in running.log)
            program(place, store)
            assert running.process.poll() is None
            assert running.log.count("can't be served") == 1


def test_a_daemon_writes_the_file_for_node_exporter(place):
    with daemon(place / "store", "--metrics", str(place / "nbcache.prom")):
        wait_for((place / "nbcache.prom").exists)
        assert list(parse((place / "nbcache.prom").read_text()))


@pytest.mark.long
def test_a_store_that_goes_away_is_told(place, monkeypatch):
    store, port = place / "store", ports.free()
    with daemon(store, "--metrics", str(port)) as running:
        wait_for(lambda: scrape(port).get(("nbcache_store_up",)) == 1)
        store.chmod(0o777)
        wait_for(lambda: scrape(port).get(("nbcache_store_up",)) == 0)
        assert ("nbcache_hits_total",) not in scrape(port)
        store.chmod(0o755)
        wait_for(lambda: scrape(port).get(("nbcache_store_up",)) == 1)
        assert running.process.poll() is None


@pytest.mark.parametrize(
    ("options", "said"), [(["--metrics", "nowhere:1"], "not an address"), (["--metrics", "0"], "not an address")]
)
def test_what_is_no_address_is_wrong_usage(place, options, said):
    done = proc.run(["-m", "nbcache", "serve", "--dir", place / "store", "--state", place / "state", *options])
    assert (done.status, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


@pytest.mark.parametrize("command", [["serve", "--metrics", "9464"], ["metrics"]])
def test_without_the_package_it_says_what_to_install(place, command):
    (place / "prometheus_client.py").write_text("raise ModuleNotFoundError('no', name='prometheus_client')")
    extra = {"PYTHONPATH": f"{place}{os.pathsep}{proc.search_path(proc.ROOT)}"}
    done = proc.run(["-m", "nbcache", *command, "--dir", place / "store"], extra=extra)
    assert (done.status, done.stderr) == (
        1,
        "nbcache: metrics need prometheus_client: pip install 'nbcache[metrics]'\n",
    )
    # All else goes on without it.
    assert proc.run(["-m", "nbcache", "config", "--dir", place / "store"], extra=extra).status == 0


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus")
def test_a_real_prometheus_scrapes_it_and_evaluates_the_rules(place):
    store, port, own = place / "store", ports.free(), ports.free()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(proc.ROOT / "deploy/prometheus/nbcache.rules.yml")],
        "scrape_configs": [{"job_name": "nbcache", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}],
    }
    (place / "prometheus.yml").write_text(json.dumps(config))  # which is YAML
    queries = [
        target["expr"].replace('"$store"', '".*"').replace("$__rate_interval", "1m").replace("$__range", "1h")
        for panel in json.loads((proc.ROOT / "deploy/grafana/nbcache.json").read_text())["panels"]
        for target in panel.get("targets", ())
    ]

    def ask(path, **parameters):
        return json.loads(get(own, f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}") or "{}").get("data", {})

    def value(query):
        return [float(each["value"][1]) for each in ask("query", query=query).get("result", ())]

    with daemon(store, "--metrics", str(port)), (place / "prometheus.log").open("w") as log:
        program(place, store)
        prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={place}/tsdb",
             f"--web.listen-address=127.0.0.1:{own}", "--log.level=warn"],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            wait_for(lambda: value("nbcache_hits_total") == [1.0], lambda: (place / "prometheus.log").read_text())
            assert value('nbcache_daemon_jobs_total{outcome="built"}')[0] >= 1
            (target,) = ask("targets")["activeTargets"]
            assert (target["health"], target["lastError"]) == ("up", "")
            for query in queries:
                assert "result" in ask("query", query=query), query
            rules = wait_for(
                lambda: [
                    rule
                    for group in ask("rules").get("groups", ())
                    for rule in group["rules"]
                    if rule["health"] != "unknown"
                ]
            )
            assert {rule["health"] for rule in rules} == {"ok"}
            meta = ask("targets/metadata", match_target='{job="nbcache"}')
            assert len(meta) > 25
        finally:
            prometheus.terminate()
            prometheus.wait()


@pytest.mark.long
def test_metrics_of_a_store_without_a_daemon(place):
    store, file = place / "store", place / "nbcache.prom"
    command = ["-m", "nbcache", "metrics", "--dir", store]
    assert proc.run([*command, "--textfile", file]).status == 1
    assert 'nbcache_store_up{store="' in file.read_text()
    program(place, store, NBCACHE_READONLY="0")
    program(place, store, NBCACHE_READONLY="0")
    before = time.time()
    done = proc.run([*command, "--textfile", file])
    assert (done.status, done.stdout, done.stderr) == (0, "", "")
    found = {
        (each.name, *each.labels.values()): each.value for family in parse(file.read_text()) for each in family.samples
    }
    assert found["nbcache_hits_total", str(store)] == 1
    assert found["nbcache_store_entries", str(store)] >= 1
    assert abs(found["nbcache_look_timestamp_seconds", str(store)] - before) < 600
    assert proc.run(command).stdout.startswith("# HELP nbcache_build_info")
    assert sorted(os.listdir(place)) == ["nbcache.prom", "program.py", "store"]


@pytest.mark.every(2)
@pytest.mark.parametrize(("file", "said"), [("absent/x.prom", "No such file"), (".", "not a regular file")])
def test_a_file_that_cannot_be_written(place, file, said):
    proc.run(
        [
            "-m",
            "nbcache",
            "run",
            "--dir",
            place / "store",
            "--",
            sys.executable,
            "-c",
            "import numba; numba.njit(lambda: 1)()",
        ]
    )
    done = proc.run(["-m", "nbcache", "metrics", "--dir", place / "store", "--textfile", place / file])
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert said in done.stderr
