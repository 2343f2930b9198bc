"""What others wrote is logged on one line of printable characters, by whatever handlers a program has."""

import io
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbtest import proc

from nbcache.client import logs
from nbcache.config import Settings
from nbcache.daemon import shared_parts
from nbcache.daemon.shared_parts import Sparing
from nbcache.one_line import one_line


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_is_one_printable_line(text):
    shown = one_line(text)
    assert shown.isprintable()
    shown.encode("utf-8")
    assert one_line(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "gr\N{LATIN SMALL LETTER O WITH DIAERESIS}\N{SNOWMAN} 1",
            "gr\N{LATIN SMALL LETTER O WITH DIAERESIS}\N{SNOWMAN} 1",
        ),
        ("a\nb\r", r"a\nb\r"),
        ("\x1b[2J", r"\x1b[2J"),
        (chr(0xD800), r"\ud800"),
        (chr(0x202E), r"\u202e"),
        (chr(0x2028), r"\u2028"),
    ],
)
def test_what_escapes_look_like(text, shown):
    assert one_line(text) == shown


@pytest.fixture
def log():
    """The lines of a program's own handler."""
    logger, stream = logging.getLogger("nbcache"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logs.configure(Settings())
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def test_logged_text_forges_nothing(log):
    logger = logging.getLogger("nbcache")
    logger.warning("%s is rejected: %s%%", "a\nWARNING forged", "\x1b[31m")
    try:
        raise ValueError("first\nWARNING forged \x1b")
    except ValueError:
        logger.exception("a fault over %s", chr(0xDC80))
    lines = log.getvalue().splitlines()
    assert lines[0] == r"WARNING a\nWARNING forged is rejected: \x1b[31m%"
    assert lines[1] == r"ERROR a fault over \udc80"
    assert all(line.startswith("    ") for line in lines[2:])
    assert lines[-1] == r"    WARNING forged \x1b"
    assert all(line.isprintable() for line in lines)


def test_a_message_that_does_not_fit_its_arguments_is_left_to_logging(log, capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("nbcache"), "propagate", False)
    logging.getLogger("nbcache").warning("%d", "x")
    assert log.getvalue() == ""
    assert "Logging error" in capsys.readouterr().err


def test_things_are_said_once_and_not_too_many_of_them(log, monkeypatch):
    spare = Sparing(logging.getLogger("nbcache"), most=3)
    for _ in range(5):
        for about in "abcde":
            spare.warning(about, "%s happened", about)
    assert log.getvalue().splitlines() == [
        *(f"WARNING {about} happened" for about in "abc"),
        "WARNING logged 3 such warnings this hour; suppressing further ones",
    ]
    monkeypatch.setattr(shared_parts, "SECONDS", -1.0)
    spare.warning("a", "again")
    assert log.getvalue().splitlines()[-1] == "WARNING again"


SAYING = """
import logging, os
os.environ["JOURNAL_STREAM"] = "{0.st_dev}:{0.st_ino}".format(os.fstat(2))
from nbcache.client import logs
from nbcache.config import Settings
logs.configure(Settings(log="INFO", sources={"log": "serve"}))
logger = logging.getLogger("nbcache")
logger.info("as usual")
try:
    raise ValueError("first\\nsecond")
except ValueError:
    logger.exception("a fault")
"""


def test_the_journal_is_given_a_priority_for_each_line_and_no_time_which_it_has():
    lines = proc.run(["-c", SAYING]).stderr.splitlines()
    assert lines[:2] == ["<6>as usual", "<3>a fault"]
    assert len(lines) > 2
    assert all(line.startswith("<3>    ") for line in lines[2:])
