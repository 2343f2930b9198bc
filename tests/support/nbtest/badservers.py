"""HTTP servers on loopback that do one thing wrong."""

import collections
import contextlib
import http.server
import socket
import socketserver
import threading
import time
from contextlib import contextmanager


class Faulty(socketserver.ThreadingTCPServer):
    """An HTTP server that does one thing wrong."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer):
        self.answer = answer
        self.asked = 0
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        if self.request.recv(1 << 16):
            self.server.asked += 1
            with contextlib.suppress(ConnectionError):  # whoever asked has given up
                self.server.answer(self.request)


def status(code):
    def answer(line):
        line.sendall(f"HTTP/1.1 {code} Because\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())

    return answer


def late(line):
    time.sleep(5)
    status(404)(line)


def never(line):
    # Until the other side is tired of it.
    line.recv(1)


def half(line):
    line.sendall(b"HTTP/1.1 200 Fine\r\nContent-Length: 20000\r\n\r\n" + b"x" * 1000)


def drip(line):
    line.sendall(b"HTTP/1.1 200 Fine\r\nContent-Length: 20000\r\n\r\n")
    for _ in range(100):
        line.sendall(b"x")
        time.sleep(0.1)


class Keeping(http.server.ThreadingHTTPServer):
    """An HTTP server that keeps what it is sent, but answers ``refuse(path, nth)`` to some uploads, if that is a status."""

    def __init__(self, refuse):
        self.refuse = refuse
        self.objects = {}
        self.uploads = collections.Counter()
        super().__init__(("127.0.0.1", 0), Keeper)


class Keeper(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.uploads[self.path] += 1
        code = self.server.refuse(self.path, self.server.uploads[self.path])
        if code is None:
            self.server.objects[self.path] = data
        self.say(code or 201)

    def do_GET(self):
        data = self.server.objects.get(self.path)
        self.say(404 if data is None else 200, data or b"")

    def say(self, code, data=b""):
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def faulty(answer):
    with running(Faulty(answer)) as (server, address):
        yield server, address


@contextmanager
def running(server):
    """Have a server answer in a thread of its own; the server, and the address of a cache there."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_address[1]}/cache"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def black_hole():
    """A port where whoever wants to connect hears nothing: its queue is full."""
    with contextlib.ExitStack() as open_lines:
        hole = open_lines.enter_context(socket.socket())
        hole.bind(("127.0.0.1", 0))
        hole.listen(0)
        for _ in range(3):
            line = open_lines.enter_context(socket.socket())
            line.setblocking(False)
            line.connect_ex(hole.getsockname())
        yield hole.getsockname()[1]
