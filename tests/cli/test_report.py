"""The report: what it tells is what the store holds, and nobody's text becomes more than text."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbtest import disks, showcase

from nbcache.cli.reporting import charts, gather, page
from nbcache.config import Settings
from nbcache.store import layout, listing, usage, usage_sums
from nbcache.store.directory import Store
from nbcache.store.usage_sums import Past

NOW = 1_800_000_000.0
TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "header",
    "section",
    "footer",
    "div",
    "span",
    "p",
    "h1",
    "h2",
    "b",
    "code",
    "wbr",
    "table",
    "tr",
    "th",
    "td",
    "svg",
    "g",
    "rect",
    "line",
    "polyline",
    "path",
    "circle",
    "text",
}
NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>alert(1)</script>",
    "</title><b>",
    "&lt;script&gt;",
    "javascript:alert(1)",
    "\x1b]0;owned\x07\x1b[2J",
    "new\nline\r\n<!--",
    "\u202edrow\u202c \u200b \ufeff",
    "caf\u00e9 \u6f22\u5b57 \U0001f600",
    "\ud800",
    "x" * 10_000,
    "'; DROP TABLE entries; --",
    "a:b" * 500,
    "",
]


class Seen(HTMLParser):
    """What a page consists of."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.words, self.comments, self.open = set(), [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in {"meta", "wbr"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    def handle_comment(self, data):
        self.comments.append(data)

    @property
    def text(self):
        return "".join(self.words)


def read(text):
    """Check what holds for every page; return what is in it."""
    seen = Seen(text)
    assert seen.tags <= TAGS
    assert seen.open == []
    assert seen.comments == []
    names = {name for name, _ in seen.attributes}
    assert not any(name.startswith("on") or name in {"href", "src", "srcset", "action", "xlink:href"} for name in names)
    assert all("url(" not in (value or "") for name, value in seen.attributes if name == "style")
    assert not re.search(r"https?://", text)
    assert not any(char for char in text if not char.isprintable() and char != "\n")
    text.encode("utf-8")
    return seen


def report(nbcache, root, *options):
    done = nbcache("report", "--dir", root, *options, "-")
    assert (done.status, done.err) == (0, "")
    return read(done.out)


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """A store with weeks behind it."""
    folder = tmp_path_factory.mktemp("past")
    folder.chmod(0o755)
    return showcase.build(folder / "store", days=30)


def test_it_tells_what_happened(past, monkeypatch):
    monkeypatch.setattr(gather, "SECONDS", 600.0)
    told = gather.gather(past, 3 << 20)
    total = usage.merge(usage.read(past.path))
    assert told.total["hit_count"] == total["hit_count"]
    assert sum(told.misses.values()) == sum(total["misses"].values())
    assert sum(bucket["hit_count"] for bucket in told.past.hours.values()) == total["hit_count"]
    assert told.entries == len(list(past.scan()))
    assert told.costly == sorted(told.costly, key=lambda each: -each.seconds)
    assert told.packages[0].name == "orbits"
    assert told.packages[0].causes[0][0] == "global `orbits.config.SOFTENING`"
    assert all(victim.goes for victim in told.victims[: told.evicts])
    plan = past.gc(3 << 20, dry_run=True)
    assert told.evicts == len(plan.remove)
    uses = [victim.used for victim in told.victims]
    assert uses == sorted(uses)
    assert sum(size for _, _, size in told.ages) == told.size
    assert told.notes == []


def test_the_page_of_a_store_with_a_past(past, nbcache):
    assert "Nothing now" in report(nbcache, past.path).text
    assert "Nothing: there is no limit" in report(nbcache, past.path, "--max-size", "0").text
    seen = report(nbcache, past.path, "--max-size", "1MiB")
    assert "above its limit" in seen.text
    for words in (
        past.path,
        "Hit rate over time",
        "orbits.integrate:acceleration",
        "orbits.config.SOFTENING",
        "37 entries",
    ):
        assert words in seen.text
    assert "Each column is a day" in seen.text
    assert ("http-equiv", "Content-Security-Policy") in seen.attributes
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in seen.attributes


def test_the_page_of_an_empty_store(filled, nbcache):
    seen = report(nbcache, filled.path)
    for words in (
        "No program has used this store yet",
        "Nothing was compiled yet",
        "Nothing missed",
        "none",
    ):
        assert words in seen.text


def test_without_records_entries_tell_what_cost_most(filled, nbcache):
    filled.add("pkg:dear", compile_seconds=90.0)
    filled.add("pkg:cheap", compile_seconds=1.0)
    text = report(nbcache, filled.path).text
    assert text.index("pkg:dear") < text.index("pkg:cheap")
    assert "1 min 30 s" in text


@pytest.mark.parametrize("text", NASTY)
def test_nobody_s_text_becomes_more_than_text(filled, nbcache, text):
    for number in range(3):
        filled.add(f"{text}.mod:{text}", [("global " + text + ": " + text, str(number))], signature=text)
    filled.record(
        argv0=text,
        misses={text: 3},
        errors={text: 1},
        uncacheable={text: {"count": 2, "functions": [text] * 5}},
        builds=[{"key": f"{n:064x}", "function": text + " " + text, "seconds": 1.0} for n in range(3)],
        built_seconds=3.0,
    )
    usage_sums.fold(filled.path, lambda _: True, age=-1)
    first = report(nbcache, filled.path)
    assert "alert(1)" not in "".join(value or "" for name, value in first.attributes if name.startswith("on"))
    assert len(first.text) < 100_000
    if "script" in text:
        assert "script" in first.text


def test_records_of_any_size_are_survived(filled, nbcache):
    filled.add("pkg:f")
    directory = f"{filled.path}/{layout.USAGE}"
    for number, data in enumerate(
        (
            {"version": 1, "misses": {"x" * 10_000_000: 1}},
            {"version": 1, "argv0": "y" * 10_000_000},
            {"version": 1, "hit_count": 10**300, "saved_seconds": 1e308, "misses": {"new": 10**300}},
            {"version": 1, "builds": [{"key": "0" * 64, "function": "z" * 900_000, "seconds": 1e308}]},
            {"version": 1, "uncacheable": {f"r{n}": {"count": 1, "functions": ["<b>" * 99] * 99} for n in range(999)}},
        )
    ):
        with open(f"{directory}/{number}.json", "w") as file:
            json.dump(data, file)
        os.utime(f"{directory}/{number}.json", (number * 1e9, number * 1e9))
    past = Past()
    past.add(usage.clean({"version": 1, "misses": {"new": 1 << 60}}), time.time(), lambda _: True)
    with open(f"{filled.path}/{layout.USAGE_TOTAL}", "wb") as file:
        file.write(past.encode())
    seen = report(nbcache, filled.path)
    assert "x" * 1000 not in seen.text
    assert len(seen.text) < 100_000


def test_a_record_that_cannot_be_read_is_no_obstacle(filled, nbcache):
    directory = f"{filled.path}/{layout.USAGE}"
    os.mkfifo(f"{directory}/fifo.json")
    os.symlink("/dev/zero", f"{directory}/zero.json")
    with open(f"{filled.path}/{layout.USAGE_TOTAL}", "w") as file:
        file.write(
            '{"version": 1, "hours": {"99999999999999999999": [1, 2, 3]}, "days": {"x": null}, "functions": [1]}'
        )
    report(nbcache, filled.path)


def test_a_store_that_is_deleted_meanwhile(filled, nbcache, monkeypatch):
    for number in range(20):
        filled.add(f"pkg:f{number}")
    filled.record(misses={"new": 1})
    real = listing.EntryInfo.header.fget
    monkeypatch.setattr(
        listing.EntryInfo,
        "header",
        property(lambda self: (shutil.rmtree(filled.path, ignore_errors=True), real(self))[1]),
    )
    seen = report(nbcache, filled.path)
    assert "can't be read" in seen.text


def test_headers_are_read_for_a_bounded_time(filled, nbcache, monkeypatch):
    for number in range(5):
        filled.add(f"pkg:f{number}")
    monkeypatch.setattr(gather, "SECONDS", -1.0)
    assert "Of 5 entries the first 0" in report(nbcache, filled.path).text


def test_the_file(filled, nbcache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = nbcache("report", "--dir", filled.path)
    assert (done.status, done.out) == (0, f"{tmp_path}/nbcache-report.html\n")
    read((tmp_path / "nbcache-report.html").read_text())
    assert nbcache("report", "--dir", filled.path, "other.html").status == 0
    os.mkfifo("fifo")
    for name, said in (("fifo", "not a regular file"), (".", "not a regular file"), ("absent/x", "No such file")):
        done = nbcache("report", "--dir", filled.path, name)
        assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
        assert said in done.err
    assert stat.S_ISFIFO(os.stat("fifo").st_mode)
    # A link in /tmp leads to where somebody else wants it to.
    (tmp_path / "precious").write_text("data")
    os.symlink("precious", "link.html")
    assert nbcache("report", "--dir", filled.path, "link.html").status == 1
    assert (tmp_path / "precious").read_text() == "data"


def test_without_jinja2_it_says_so(filled, nbcache, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = nbcache("report", "--dir", filled.path, "-")
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
    assert "pip install 'nbcache[report]'" in done.err


def test_a_full_disk_leaves_the_last_report(filled, process, place):
    with disks.small_disk(place / "disk", "64k") as disk:
        (disk / "r.html").write_text("the last one")
        (disk / "ballast").write_bytes(b"x" * 57344)
        done = process("report", "--dir", filled.path, disk / "r.html")
        assert (done.status, done.err.count("\n")) == (1, 1)
        assert "No space left" in done.err
        assert (disk / "r.html").read_text() == "the last one"
        assert sorted(os.listdir(disk)) == ["ballast", "r.html"]


def past_of(*hours):
    past = Past()
    past.hours = {hour: {"hit_count": 3, "misses": {"new": 1}} for hour in hours}
    return past


def test_columns_are_hours_while_the_past_is_short():
    hour, day = int(NOW // 3600), int(NOW // 86400)
    step, columns = charts.columns_of(past_of(hour - 30, hour - 2), NOW)
    assert step == 3600
    assert len(columns) == 31
    assert [column.hits for column in columns].count(3) == 2
    assert columns[-1].begin <= NOW < columns[-1].begin + 3600
    assert len(charts.columns_of(past_of(hour), NOW)[1]) == charts.FEWEST
    assert charts.columns_of(past_of(*range(hour - 200, hour)), NOW)[0] == 3 * 3600
    # Beyond two weeks it is known by the day.
    days = [24 * each for each in range(day - 399, day)]
    assert charts.columns_of(past_of(*days[-20:]), NOW)[0] == 86400
    assert charts.columns_of(past_of(*days[-40:]), NOW)[0] == 86400
    step, columns = charts.columns_of(past_of(*days), NOW)
    assert (step, len(columns) <= charts.COLUMNS) == (7 * 86400, True)
    assert sum(column.hits for column in columns) == 3 * 399


@pytest.mark.long
@given(
    st.dictionaries(
        st.integers(0, 600_000), st.tuples(st.integers(0, 1 << 53), st.integers(0, 1 << 53)), min_size=1, max_size=20
    ),
    st.floats(0, 2e9),
)
def test_any_course_of_time_can_be_drawn(found, now):
    past = Past()
    past.hours = {n: {"hit_count": hits, "misses": {"new": missed}} for n, (hits, missed) in found.items()}
    step, columns = charts.columns_of(past, now)
    assert len(columns) <= charts.COLUMNS
    drawn = page.environment().get_template("course.svg").render(step=step, columns=columns)
    assert "nan" not in drawn
    assert "inf" not in drawn
    Seen(drawn)


@given(st.text(), st.text())
def test_markup_is_made_of_text_safely(text, other):
    made = page.environment().from_string(
        '<div title="{{ text }}">{{ text }}{{ other }}<b title="{{ other }}">{{ text | name }}</b></div>'
    )
    seen = Seen(made.render(text=text, other=other))
    assert seen.tags - {"wbr"} == {"div", "b", "code"}
    assert {name for name, _ in seen.attributes} == {"title"}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.02, "20 ms"),
        (59, "59.0 s"),
        (61, "1 min 01 s"),
        (3661, "1 h 01 min"),
        (200_000, "2 d 7 h"),
        (9e15, "104.2 G d"),
    ],
)
def test_times_in_words(seconds, said):
    assert charts.span(seconds) == said


def test_every_reason_has_a_meaning():
    from nbcache.store import reasons

    assert set(page.MEANINGS) == set(reasons.MISSES)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.timeout(120)
def test_a_real_browser_finds_nothing_to_complain_about(past, nbcache, tmp_path):
    store = Store.open(Settings(dir=str(tmp_path / "store")))
    for text in NASTY:
        store.write_usage({"misses": {text: 1}, "uncacheable": {text: {"count": 1, "functions": [text]}}})
    for number, root in enumerate((past.path, store.path)):
        assert nbcache("report", "--dir", root, tmp_path / f"{number}.html").status == 0
        done = subprocess.run(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
             f"--user-data-dir={tmp_path}/profile", "--dump-dom", f"file://{tmp_path}/{number}.html"],
            capture_output=True, text=True, timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        # What the browser made of it has as many elements as were written: nothing was repaired, nothing broke out.
        written, made = (
            re.findall(r"<(?!!)(\w+)", text) for text in ((tmp_path / f"{number}.html").read_text(), done.stdout)
        )
        assert sorted(name for name in made if name != "tbody") == sorted(written)
        assert "CONSOLE" not in done.stderr, done.stderr
