"""Runs the tests of one name in this process and writes what becomes of each, one JSON line at a time.

    python child.py NAME RESULTS SAMPLE

NAME is what unittest's loader takes: a module, a class, a test. Tests that RESULTS already knows are left out, so a
new process goes on after the test that ended the last one. Lines: ``{"start": id}`` before a test, ``{"test": id,
"outcome": ..., "message": ..., "seconds": ...}`` after it, ``{"end": true}`` when all have run.
"""

from __future__ import annotations

import json
import os
import sys
import time
import unittest
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# A test with subtests has the worst of their outcomes.
_WORST_FIRST = ("error", "fail", "unexpected success", "expected failure", "skip")


class Recorder(unittest.TestResult):
    """Writes each event at once and unbuffered: the next test may end the process."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.events: list[tuple[str, str]] = []
        self.started = 0.0
        self.running = False

    def write(self, **record):
        os.write(self.descriptor, (json.dumps(record) + "\n").encode())

    def startTest(self, test):
        self.write(start=test.id())
        self.events, self.running, self.started = [], True, time.perf_counter()

    def stopTest(self, test):
        self.running = False
        self._result(test, self.events)

    def _result(self, test, events):
        for outcome in _WORST_FIRST:
            messages = [message for kind, message in events if kind == outcome]
            if messages:
                break
        else:
            outcome, messages = "ok", [""]
        seconds = round(time.perf_counter() - self.started, 3)
        self.write(test=test.id(), outcome=outcome, message=messages[0], seconds=seconds)

    def _event(self, test, outcome, message=""):
        if self.running:
            self.events.append((outcome, message))
        else:  # set-up or tear-down of a class or a module, which has no start
            self.started = time.perf_counter()
            self._result(test, [(outcome, message)])

    def addError(self, test, err):
        self._event(test, "error", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        self._event(test, "fail", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        if err is not None:
            kind = "fail" if issubclass(err[0], test.failureException) else "error"
            self._event(test, kind, f"{subtest.id()}\n{self._exc_info_to_string(err, test)}")

    def addSkip(self, test, reason):
        self._event(test, "skip", reason)

    def addExpectedFailure(self, test, err):
        self._event(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self._event(test, "unexpected success")


def flatten(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def main(name: str, results: str, sample: int) -> None:
    recorder = Recorder(results)
    with open(results, encoding="utf-8") as file:
        seen = {json.loads(line).get("start") for line in file}
    tests = [
        test
        for test in flatten(unittest.defaultTestLoader.loadTestsFromName(name))
        if test.id() not in seen and zlib.crc32(test.id().encode()) % sample == 0
    ]
    unittest.TestSuite(tests).run(recorder)
    recorder.write(end=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
