"""JSON over HTTP, for accumulator and workers: a server on loopback that ends with the process that started it."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import resource
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

Answer = Callable[[dict[str, Any]], Mapping[str, Any]]

LONGEST: Final = 1 << 16
"""The longest request [bytes]."""
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


class UnavailableError(Exception):
    """Somebody who is needed for an answer doesn't answer; the message is one line that says who."""


class Server(ThreadingHTTPServer):
    """A server with many clients that come at once."""

    daemon_threads = True
    request_queue_size = 256


def serve(answers: Mapping[str, Answer], page: Path | None = None, port: int = 0) -> None:
    """Answer requests by their paths, and ``/describe``, until standard input ends.

    POST has what is asked as an object of JSON; GET asks nothing, and also gets the files of the folder ``page``. The
    port is printed when the server listens; 0 is any that is free.
    """
    answers = {**answers, "/describe": describe}
    files = {} if page is None else {f"/{path.name}": path for path in page.iterdir() if path.suffix in _TYPES}
    if "/index.html" in files:
        files["/"] = files["/index.html"]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            file = files.get(self.path)
            if file is None:
                self._say(*self._answer(b""))
            else:
                self._send(200, _TYPES[file.suffix], file.read_bytes())

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "0")
            if length.isdecimal() and int(length) <= LONGEST:
                self._say(*self._answer(self.rfile.read(int(length))))
            else:
                self.close_connection = True  # what was sent is left unread
                self._say(400, {"error": f"a request says how long it is: at most {LONGEST} bytes"})

        def _answer(self, body: bytes) -> tuple[int, Mapping[str, Any]]:
            answer = answers.get(self.path)
            if answer is None:
                return 404, {"error": f"there is no {self.path:.80}: there are {', '.join(answers)}"}
            try:
                return 200, answer(_read(body))
            except ValueError as error:
                return 400, {"error": str(error)}
            except UnavailableError as error:
                return 503, {"error": str(error)}
            except Exception as error:
                return 500, {"error": f"{type(error).__name__}: {error}"}

        def _say(self, status: int, said: Mapping[str, Any]) -> None:
            self._send(status, "application/json", json.dumps(said, allow_nan=False).encode())

        def _send(self, status: int, kind: str, data: bytes) -> None:
            with suppress(ConnectionError):  # of who asked and went away
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Content-Security-Policy", "default-src 'self'; img-src data:")
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with Server(("127.0.0.1", port), Handler) as server:
        print(server.server_address[1], flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # Whoever started this process holds the other end: when it ends, so do we.
        sys.stdin.read()
        server.shutdown()


def number(value: float) -> float | None:
    """Return a number as JSON has it: None for what is infinite, or no number at all."""
    return value if math.isfinite(value) else None


def describe(_: dict[str, Any]) -> dict[str, Any]:
    """Return what this process is like: if it has Numba, its largest memory [bytes], and its process group."""
    return {
        "numba": importlib.util.find_spec("numba") is not None,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "group": os.getpgrp(),
    }


def processor_times() -> dict[int, float]:
    """Return how much each process group has used [s]: its processes, and the children that these waited for.

    It is by group, since the process that proves publications is in the group of who publishes, but nobody's child.
    """
    ticks: dict[int, int] = defaultdict(int)
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            # What follows the name in brackets: state, parent, group, ... (man 5 proc).
            fields = place.read_bytes().rpartition(b")")[2].split()
            ticks[int(fields[2])] += sum(map(int, fields[11:15]))
    return {group: used / os.sysconf("SC_CLK_TCK") for group, used in ticks.items()}


def _read(body: bytes) -> dict[str, Any]:
    """Return what is asked; raise ValueError for anything but an object of JSON."""
    try:
        asked = json.loads(body or b"{}")
    except ValueError as error:
        raise ValueError(f"what is asked is no JSON: {error}") from error
    except RecursionError as error:
        raise ValueError("what is asked is nested too deeply") from error
    if not isinstance(asked, dict):
        raise ValueError(f"what is asked is an object, not {type(asked).__name__}")  # noqa: TRY004  a bad request
    return asked


class Client:
    """A connection to one server, for one thread. If it breaks, the next request makes another one."""

    def __init__(self, port: int, timeout: float = 300) -> None:
        self._port = port
        self._connection = HTTPConnection("127.0.0.1", port, timeout=timeout)

    def ask(self, path: str, **said: Any) -> dict[str, Any]:
        """Return the answer.

        Raises ValueError with the reason for a bad request, UnavailableError for none in time, RuntimeError for other
        failures.
        """
        try:
            self._connection.request("POST", path, json.dumps(said))
            response = self._connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        except (OSError, HTTPException) as error:
            self._connection.close()
            raise UnavailableError(f"nobody answers at port {self._port}") from error
        if response.status != 200:
            raise {400: ValueError, 503: UnavailableError}.get(response.status, RuntimeError)(answer["error"])
        return answer
