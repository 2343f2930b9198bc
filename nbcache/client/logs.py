"""What the client says, and where: ``logging`` under the name ``nbcache``, nothing else."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import Final

from nbcache.config import Settings
from nbcache.process import os

log: Final = logging.getLogger("nbcache")
_said: set[str] = set()
_MODE = 0o666
_PRIORITIES: Final = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
"""Of syslog(3), by level."""


def configure(settings: Settings) -> None:
    """Apply NBCACHE_LOG and NBCACHE_LOG_FILE.  A program that configures logging itself keeps its say."""
    log.addFilter(_plain)
    if settings.sources.get("log", "default") != "default":
        log.setLevel(settings.log)
        if logging.getLevelName(settings.log) < logging.WARNING and not log.hasHandlers() and not settings.log_file:
            handler = logging.StreamHandler()
            _add(handler)
            from nbcache import environ

            if environ.standard_error_is_the_journal():
                handler.setFormatter(_JournalFormatter("%(message)s"))
    elif log.level == logging.NOTSET:  # else it would be the root's, which programs set to hear of themselves
        log.setLevel(settings.log)
    if settings.log_file:
        import nbcache.regular_files  # noqa: F401  where it can't be opened, nbcache stays off, and no line of the log raises

        try:
            _add(_LogFile(settings.log_file, encoding="utf-8", delay=True, errors="backslashreplace"))
        except OSError as exc:
            log.warning("NBCACHE_LOG_FILE=%s can't be used: %s", settings.log_file, exc.strerror)


def _plain(record: logging.LogRecord) -> bool:
    """Whatever a line tells of files and programs of others, it is one line of printable characters.

    On the logger, so that it holds for a program's own handlers too. Lines of a traceback are indented: none of them
    can pass for a line of the log.
    """
    try:
        from nbcache.one_line import one_line  # most processes say nothing
    except (ImportError, OSError):  # what is said may be that there is no descriptor left, with which to open it
        one_line = _ascii_line
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001  logging itself says what is wrong with it
        return True
    record.msg, record.args = one_line(message), ()
    if record.exc_info and not record.exc_text:
        told = logging.Formatter().formatException(record.exc_info)
        record.exc_text = "\n".join(f"    {one_line(line)}" for line in told.split("\n"))
    return True


class _JournalFormatter(logging.Formatter):
    """Lines for the journal, which adds time and process itself and takes the priority from the line (sd-daemon(3))."""

    def format(self, record: logging.LogRecord) -> str:
        priority = _PRIORITIES.get(record.levelname, 6)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).split("\n"))


def _ascii_line(text: str) -> str:
    return ascii(text)[1:-1]


class _LogFile(logging.FileHandler):
    """A log whose disk may be full: standard error is told once, and lines are lost until they can be written."""

    _told = False

    def _open(self) -> TextIOWrapper:
        from nbcache.regular_files import open_to_append

        fd = open_to_append(self.baseFilename, _MODE)
        return os.fdopen(fd, "a", encoding=self.encoding, errors=self.errors)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; never raises for what the filesystem does."""
        try:
            super().emit(record)
        except OSError:  # it can't be opened
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's own name
        """Say what is wrong in one line, and not with a traceback."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._told and sys.stderr is not None:
            self._told = True
            with suppress(OSError, ValueError):
                sys.stderr.write(f"NBCACHE_LOG_FILE={self.baseFilename} can't be written: {error.strerror}\n")


def _add(handler: logging.Handler) -> None:
    handler.setFormatter(logging.Formatter("%(asctime)s nbcache[%(process)d] %(levelname)s %(message)s"))
    log.addHandler(handler)


def once(message: str, *args: object, level: int = logging.WARNING) -> None:
    """Log at *level* the first time, at DEBUG after that: a full disk is one line, not thousands."""
    first = message not in _said
    _said.add(message)
    log.log(level if first else logging.DEBUG, message, *args)
