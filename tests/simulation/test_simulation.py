"""The simulation runs, and shows what nbcache's policy for remote caches is to do for a fleet that starts at once."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent))
from nbsim import chart, hosts, lanes, lanes_chart, servers

KEYS = 12
HOSTS = 20


def simulate(server, **options):
    given = {"hosts": HOSTS, "keys": KEYS, "spread": 2.0, "full": False, **options}
    return hosts.simulate(servers.KINDS[server], **given)


def test_with_a_full_cache_nobody_compiles_and_each_function_is_one_request():
    measured = simulate("Redis", full=True)
    outermost = KEYS // (1 + hosts.CALLEES)
    assert (measured.compilations, measured.refused, measured.puts) == (0, 0, 0)
    assert measured.gets == HOSTS * outermost


def test_of_hosts_that_build_the_same_at_once_few_upload_it():
    measured = simulate("Redis")
    assert measured.compilations > 3 * KEYS
    assert KEYS <= measured.puts <= 1.5 * KEYS


def test_what_a_compilation_needs_is_asked_for_where_answers_take_a_while():
    measured = simulate("S3")
    assert measured.in_vain < measured.compilations / 5


def test_a_server_that_answers_too_often_now_and_then_is_asked_again():
    kind = servers.S3._replace(limit=40)
    measured = hosts.simulate(kind, hosts=HOSTS, keys=KEYS, spread=1.0, full=True)
    assert measured.refused > 5
    assert measured.compilations < HOSTS


@pytest.mark.parametrize("server", ["black hole", "dead for 20 s", "5 % errors"])
def test_nobody_waits_longer_than_promised_whatever_the_server_does(server):
    measured = simulate(server)
    assert measured.waited <= 2.0
    assert measured.last <= measured.plain * 1.5 + 2.0


def test_the_same_seed_gives_the_same_course_of_events():
    assert simulate("HTTP", hosts=5, seed=3) == simulate("HTTP", hosts=5, seed=3)


def test_the_picture_is_drawn_from_the_figures():
    figures = json.loads(chart.DATA.read_text(encoding="utf-8"))
    assert chart.CHART.read_text(encoding="utf-8") == chart.picture(figures)
    assert all(figures[label] for label in chart.LABELS)


def test_with_processors_cold_starts_take_less_down_to_the_longest_chain():
    shares = lanes.shares()
    for name, row in shares.items():
        profile = lanes.profile_of(lanes.recorded()[name])
        least = (lanes.IMPORTS + lanes.BEGINNING + lanes.MISS * max(profile.ranks())) / lanes.plain(profile)
        assert row[1] <= lanes.MISS, name
        assert row[2] < 0.95, name
        assert row[16] <= max(0.25, 1.1 * least), name
    assert min(row[16] for row in shares.values()) < 0.2
    assert lanes_chart.CHART.read_text(encoding="utf-8") == lanes_chart.picture(shares)
