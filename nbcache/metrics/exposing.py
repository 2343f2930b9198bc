"""A daemon's metrics and where they go: a port on loopback, or a file for node_exporter.

A daemon must not come to harm by being watched, whoever connects: few are served at once, by one thread, each for a
few seconds at most and for no more than a small request, and everything that goes wrong is said once. Nor must one who
watches wait for another who is slow: where there are too many, whoever has been waited for the longest is cut off. A
port that is taken is no reason to stop serving; it is tried again.

Not ``prometheus_client.start_http_server``: it starts a thread for each connection and lets each of them wait as long
as it likes, so any user of the machine could keep a daemon from opening files.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import threading
from concurrent.futures import Future
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from nbcache.metrics import metric_names
from nbcache.metrics.store_scan import Look, Looker
from nbcache.store import atomic

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.config import Settings
    from nbcache.metrics.meter import Meter

    Render = Callable[[str], tuple[bytes, str]]
    """Returns the metrics, and their content type, for what an Accept header says."""

MAX_CONNECTIONS: Final = 16
BACKLOG: Final = 128
"""How many may wait in the kernel until they are accepted."""
REQUEST_SECONDS: Final = 5.0
"""How long a request may take, and its answer [s]."""
MAX_REQUEST: Final = 8192
"""The longest request [bytes]."""
RETRY_SECONDS: Final = 30.0
"""How soon an address that is taken is tried again [s]."""
TEXTFILE_SECONDS: Final = 15.0
"""How often the file is written [s]: Prometheus asks node_exporter about as often."""
SUFFIX: Final = ".prom"
"""What node_exporter's textfile collector reads."""

_log = logging.getLogger("nbcache")


class BadAddressError(ValueError):
    """An address that means nothing here. Its text says what is accepted."""


class Address(NamedTuple):
    """Where metrics are to be had: there, or in a file."""

    host: str = ""
    port: int = 0
    file: str = ""
    """For node_exporter."""

    @property
    def open_to_others(self) -> bool:
        """Whether other machines can connect."""
        return self.host != "" and not ipaddress.ip_address(self.host).is_loopback

    def __str__(self) -> str:
        """Return it as a person would write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.file or f"http://{host}:{self.port}/metrics"


def read_address(text: str) -> Address:
    """Return what ``PORT``, ``HOST:PORT`` or ``/path/of/a/file.prom`` means.

    A port alone is one of 127.0.0.1. Raises BadAddressError.
    """
    if text.endswith(SUFFIX) and "\0" not in text:
        return Address(file=os.path.abspath(text))
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    host = "127.0.0.1" if host == "localhost" else host
    try:
        number = int(port[:6]) if port.isascii() and port.isdigit() else 0
        if 0 < number < 1 << 16:
            return Address(str(ipaddress.ip_address(host)), number)
        problem = None
    except ValueError as error:
        problem = error
    msg = f"not an address: {text!r:.200} (a PORT, HOST:PORT with an IP address, or a FILE{SUFFIX})"
    raise BadAddressError(msg) from problem


class Exposer:
    """Keeps metrics to be had at one address, in a thread of its own, until it is closed. No method raises."""

    def __init__(self, address: Address, render: Render) -> None:
        """Do nothing yet."""
        self._address = address
        self._render = render
        self._stopped: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="nbcache metrics", daemon=True)
        self._connections: dict[asyncio.StreamWriter, None] = {}
        """Whose other end has to send or to read something, the longest first."""
        self._problem: str | None = None

    def start(self) -> None:
        """Begin; a bad beginning is tried again later."""
        if self._address.open_to_others:
            _log.warning("%s is reachable from other machines: anybody there can read the metrics", self._address)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        if not self._stopped.done():
            self._stopped.set_result(None)
        if self._thread.ident is not None:
            self._thread.join(REQUEST_SECONDS)

    async def _run(self) -> None:
        # Too many open files, say: it goes on accepting a second later.
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: self._report(context["message"]))
        stopped = asyncio.wrap_future(self._stopped)
        pause = TEXTFILE_SECONDS if self._address.file else RETRY_SECONDS
        while not stopped.done():
            try:
                if self._address.file:
                    atomic.replace_named(self._address.file, self._render("")[0])
                    self._report(None)
                else:
                    await self._serve(stopped)
            except Exception as error:  # noqa: BLE001  to be watched must not end what is watched
                reason = error.strerror if isinstance(error, OSError) else None
                self._report(f"metrics can't be served at {self._address}: {reason or error}")
            await asyncio.wait([stopped], timeout=pause)

    def _report(self, problem: str | None) -> None:
        if problem != self._problem:
            before, self._problem = self._problem, problem
            _log.warning("%s", problem) if problem is not None else _log.info("resolved: %s", before)

    async def _serve(self, stopped: asyncio.Future[None]) -> None:
        """Answer until it is stopped. Raises OSError."""
        family = socket.AF_INET6 if ":" in self._address.host else socket.AF_INET
        with socket.create_server(self._address[:2], family=family) as listener:
            # It accepts as many at once as it is told may wait.
            server = await asyncio.start_server(self._answer, sock=listener, limit=MAX_REQUEST, backlog=MAX_CONNECTIONS)
            listener.listen(BACKLOG)
            self._report(None)
            _log.info("serving metrics at %s", self._address)
            await stopped
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[writer] = None
        if len(self._connections) > MAX_CONNECTIONS:
            slowest = next(iter(self._connections))
            del self._connections[slowest]
            slowest.transport.abort()
        try:
            await asyncio.wait_for(self._exchange(reader, writer), REQUEST_SECONDS)
        except (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError):
            pass  # whoever asked went away, was too slow, or said too much
        except Exception as error:  # noqa: BLE001  as above
            self._report(f"internal error while writing metrics: {error!r}")
        finally:
            self._connections.pop(writer, None)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._reply(await reader.readuntil(b"\r\n\r\n")))
        writer.close()
        await writer.wait_closed()

    def _reply(self, request: bytes) -> bytes:
        lines = request.decode("latin-1").split("\r\n")
        method, path, *_ = [*lines[0].split(" "), "", ""]
        if method not in {"GET", "HEAD"}:
            return _response("405 Method Not Allowed", b"GET or HEAD\n", "Allow: GET, HEAD\r\n")
        if path.partition("?")[0] not in {"/metrics", "/"}:
            return _response("404 Not Found", b"/metrics\n")
        headers = (line.partition(":") for line in lines[1:])
        accept = next((value for name, _, value in headers if name.strip().lower() == "accept"), "")
        body, content_type = self._render(accept)
        answer = _response("200 OK", body, content_type=content_type)
        return answer[: len(answer) - len(body)] if method == "HEAD" else answer


def _response(status: str, body: bytes, more: str = "", content_type: str = "text/plain; charset=utf-8") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        f"X-Content-Type-Options: nosniff\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


LOOK_SECONDS: Final = 10.0
"""How long after a look at the store the next one begins [s]."""


class DaemonMetrics:
    """Tells what a daemon counts, and how its store was lately. No method raises.

    A filesystem that hangs holds up the next look at it and nothing else: ``nbcache_look_timestamp_seconds`` then says
    how old the last one is.
    """

    def __init__(self, address: Address, settings: Callable[[], Settings], meter: Meter) -> None:
        """Do nothing yet."""
        self._looker = Looker(settings)
        self._settings = settings
        self._meter = meter
        self._last: Look | None = None
        self._stopped = threading.Event()
        self._exposer = Exposer(address, self._render)
        self._thread = threading.Thread(target=self._run, name="nbcache look", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        self._exposer.start()

    def close(self) -> None:
        """End it; a look that hangs is left behind."""
        self._stopped.set()
        self._exposer.close()

    def _run(self) -> None:
        failed = False
        while not self._stopped.is_set():
            try:
                self._last = self._looker.look()
                failed = False
            except Exception:  # noqa: BLE001  to be watched must not end what is watched
                _log.log(
                    logging.DEBUG if failed else logging.WARNING,
                    "could not read the store for its metrics; serving the last figures",
                    exc_info=True,
                )
                failed = True
            self._stopped.wait(LOOK_SECONDS)

    def _render(self, accept: str) -> tuple[bytes, str]:
        last = self._last
        of_store = () if last is None else metric_names.of_store(last)
        own = metric_names.of_daemon(self._settings().dir or "", self._meter.read())
        return metric_names.text(chain(of_store, own), accept)
