"""JSON over HTTP, for accumulator and workers: a server on loopback that ends with the process that started it."""

from __future__ import annotations

import importlib.util
import json
import math
import resource
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], Mapping[str, Any]]


def describe(_: dict[str, Any]) -> dict[str, Any]:
    """Return what this process is like: whether it has Numba, its largest memory [bytes], its processor time [s]."""
    mine, children = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "numba": "numba" in sys.modules,
        "numba can be imported": importlib.util.find_spec("numba") is not None,
        "memory": mine.ru_maxrss << 10,
        "processor": sum(used.ru_utime + used.ru_stime for used in (mine, children)),
    }


class Server(ThreadingHTTPServer):
    """A server with many clients that come at once."""

    daemon_threads = True
    request_queue_size = 256


def serve(answers: Mapping[str, Answer]) -> None:
    """Answer POST requests by their paths, and ``/describe``, until standard input ends.

    The port is printed when the server listens.
    """
    answers = {**answers, "/describe": describe}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = answers.get(self.path)
            try:
                if answer is None:
                    status, said = 404, {"error": f"there is no {self.path:.80}: there are {', '.join(answers)}"}
                else:
                    status, said = 200, answer(_read(body))
            except ValueError as error:
                status, said = 400, {"error": str(error)}
            except Exception as error:
                status, said = 500, {"error": f"{type(error).__name__}: {error}"}
            data = json.dumps(said, allow_nan=False).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with Server(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # Whoever started this process holds the other end: when it ends, so do we.
        sys.stdin.read()
        server.shutdown()


def number(value: float) -> float | None:
    """Return a number as JSON has it: None for what is infinite, or no number at all."""
    return value if math.isfinite(value) else None


def _read(body: bytes) -> dict[str, Any]:
    """Return what is asked; raise ValueError for anything but an object of JSON."""
    asked = json.loads(body or b"{}")
    if not isinstance(asked, dict):
        raise ValueError(f"what is asked is an object, not {type(asked).__name__}")  # noqa: TRY004  a bad request
    return asked


class Client:
    """A connection to one server, for one thread."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=300)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, path: str, **said: Any) -> dict[str, Any]:
        """Return the answer; raise ValueError with the reason for a bad request, RuntimeError for other failures."""
        self._connection.request("POST", path, json.dumps(said))
        response = self._connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status != 200:
            raise (ValueError if response.status == 400 else RuntimeError)(answer["error"])
        return answer
