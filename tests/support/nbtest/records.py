"""What an installer writes down of a distribution's files."""

import base64
import hashlib


def row(path: str, content: bytes) -> str:
    """Return the line of a ``RECORD`` for a file with this content."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}"
