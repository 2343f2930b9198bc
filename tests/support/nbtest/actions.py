"""The cache service of GitHub's Actions (its second version), as far as clients see it; `remotes` starts it.

Twirp's messages come and go as protobuf. An object is sent to an address that the service hands out, and is there
once its upload was said to be complete. What is there can't be replaced.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

BOOLEAN, TEXT, KEY = 1, 2, 2
"""Fields of answers, and the one of questions that matters."""


def _number(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """The fields of a message: numbers, and bytes."""
    found, at = {}, 0
    while at < len(data):
        tag, at = _number(data, at)
        value, at = _number(data, at)
        if tag & 7 == 2:
            at += value
            value = data[at - value : at]
        found[tag >> 3] = value
    return found


def answer(is_well, address=""):
    """A message of a flag and an address of less than 16 KiB."""
    text = address.encode()
    length = bytes([len(text) & 127 | 128, len(text) >> 7])
    return bytes([BOOLEAN << 3, is_well, TEXT << 3 | 2]) + length + text


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kept, sent = {}, {}

    def do_POST(self):
        key = fields(self._body())[KEY].decode()
        address = f"http://127.0.0.1:{self.server.server_port}/{key}?sig=signature"
        verb = self.path.rpartition("/")[2]
        if self.headers["authorization"] != "Bearer token":
            self._say(401)
        elif verb == "GetCacheEntryDownloadURL":
            self._say(200, answer(key in self.kept, address))
        elif verb == "CreateCacheEntry":
            self._say(200, answer(key not in self.kept, address))
        else:
            self.kept[key] = self.sent.pop(key)
            self._say(200, answer(True))

    def do_PUT(self):
        self.sent[urlsplit(self.path).path[1:]] = self._body()
        self._say(201)

    def do_GET(self):
        data = self.kept[urlsplit(self.path).path[1:]]
        first, _, last = self.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")
        part = data[int(first) : int(last or len(data)) + 1]
        if "range" in self.headers:
            self._say(206, part, f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
        else:
            self._say(200, part)

    def _body(self):
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def _say(self, status, body=b"", part=None):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        if part is not None:
            self.send_header("content-range", part)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words):
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
