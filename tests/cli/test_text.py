"""Tables, sizes, times, progress."""

import io
import time

import pytest

from nbcache import setting_syntax
from nbcache.cli import commands, text


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 << 10, "1.5 MiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 50, "3072.0 TiB"),
    ],
)
def test_size(count, words):
    assert text.size(count) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 ms"), (0.0451, "45 ms"), (3.21, "3.2 s"), (300, "5 min"), (7200, "2 h"), (3 * 86400, "3 d")],
)
def test_duration(seconds, words):
    assert text.duration(seconds) == words


@pytest.mark.parametrize(
    ("words", "seconds"),
    [("90", 90), ("500ms", 0.5), ("15 min", 900), ("15m", 900), ("20sec", 20), ("0.5h", 1800), ("7d", 7 * 86400)],
)
def test_commands_and_settings_read_durations_alike(words, seconds):
    assert text.seconds(words) == commands.moment("1970-01-01T00:00:00+00:00") + seconds
    if seconds <= setting_syntax.MAX_WAIT_SECONDS:
        assert setting_syntax.read("wait_seconds", words) == seconds
    if not words.isdigit():
        assert abs(time.time() - seconds - commands.moment(words)) < 60


@pytest.mark.parametrize("words", ["", "soon", "-1h", "1w", "h", "nan", "1e9", "9" * 400 + "d"])
def test_what_is_no_duration(words):
    with pytest.raises(text.UsageError, match="not a duration"):
        text.seconds(words)
    with pytest.raises(ValueError):
        commands.moment(words)


def test_age_of_something_from_a_clock_ahead():
    assert text.age(110, now=100) == "now"
    assert text.age(90, now=100) == "10.0 s"


def test_what_happened_just_now_is_not_said_to_be_ago():
    assert [text.ago(moment, 100.0) for moment in (101.0, 99.5, 40.0)] == ["now", "now", "1 min ago"]


def test_table_aligns_and_shows_control_characters_as_such():
    assert list(text.table([("a", 1), ("long\x1b[31m", 100)], ("NAME", "N"), right=" >")) == [
        "NAME         N",
        "a            1",
        "long�[31m  100",
    ]
    assert list(text.table([])) == []


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_writes_nothing_but_to_a_terminal():
    pipe, terminal = io.StringIO(), Terminal()
    for stream in (pipe, terminal):
        bar = text.Progress(3, "verify", stream)
        for _ in range(3):
            bar.step()
        bar.clear()
    assert pipe.getvalue() == ""
    assert terminal.getvalue().startswith("\rverify [")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_progress_survives_more_steps_than_announced():
    terminal = Terminal()
    text.Progress(0, "verify", terminal).step()
    assert "1/0" in terminal.getvalue()
