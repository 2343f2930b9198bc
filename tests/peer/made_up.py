"""A test module with one of everything that can become of a test, for test_run.py."""

import os
import signal
import time
import unittest

from nbcache.config import Settings
from nbcache.store import reasons
from nbcache.store.directory import Store


class Ordinary(unittest.TestCase):
    def test_error(self):
        raise KeyError

    @unittest.expectedFailure
    def test_expected_failure(self):
        self.fail()

    def test_fail(self):
        self.fail("as planned")

    def test_ok(self):
        pass

    def test_skip(self):
        self.skipTest("as planned")

    def test_subtests(self):
        for i in range(3):
            with self.subTest(i=i):
                assert i != 1

    @unittest.expectedFailure
    def test_unexpected_success(self):
        pass


class Fatal(unittest.TestCase):
    def test_1_crash(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_2_exit(self):
        os._exit(3)

    def test_3_hang(self):
        time.sleep(3600)

    def test_4_after(self):
        pass


class NoClass(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise OSError

    def test_never(self):
        pass


class Different(unittest.TestCase):
    def test_off_only(self):
        assert "NBCACHE_DIR" not in os.environ


class Wrong(unittest.TestCase):
    def test_hit(self):
        if "NBCACHE_CHECK" in os.environ:
            store = Store.open(Settings(dir=os.environ["NBCACHE_DIR"]))
            store.write_usage({"checks": {reasons.DIFFERENT: 1}})
