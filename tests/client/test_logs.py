"""What a program hears of nbcache in a log of its own."""

import pytest
from nbtest import proc

PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
{}
from nbcache.client import logs
from nbcache.config import Settings
logs.configure(Settings({}))
logger = logging.getLogger("nbcache")
logger.info("as usual")
logger.warning("what is wrong")
"""


@pytest.mark.parametrize(
    ("before", "settings", "heard"),
    [
        ("", "", ["WARNING what is wrong"]),
        ("", "log='INFO', sources={'log': 'environment'}", ["INFO as usual", "WARNING what is wrong"]),
        ("logging.getLogger('nbcache').setLevel(logging.INFO)", "", ["INFO as usual", "WARNING what is wrong"]),
    ],
)
def test_a_program_that_logs_at_info_is_told_what_is_wrong_unless_it_asks_for_more(before, settings, heard):
    assert proc.run(["-c", PROGRAM.format(before, settings)]).stdout.splitlines() == heard
