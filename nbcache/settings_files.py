"""Reading files of settings, in TOML: those that nobody but oneself and root can have written."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from nbcache.file_trust import SEE_SETTING, Trust
from nbcache.process import os

_MAX_FILE: Final = 1 << 20


def read(path: str, problems: list[str], names: Collection[str]) -> dict[str, object]:
    """Return those settings of a file that have one of these *names*. A missing file costs one failed ``open``."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        # No permission for somebody else's home (a daemon that kept HOME) is no reason for a line in each process.
        if not isinstance(error, PermissionError):
            problems.append(f"{path} can't be read: {error}")
        return {}
    try:
        problem = _distrust(path, fd)
        data = os.read(fd, _MAX_FILE + 1) if problem is None else b""
    except (OSError, ValueError) as error:
        problems.append(f"{path} can't be read: {getattr(error, 'strerror', None) or error}")
        return {}
    finally:
        os.close(fd)
    if problem is not None:
        problems.append(f"{path} is ignored: it {problem}")
        return {}
    return _parse_file(path, data, problems, names)


def _distrust(path: str, fd: int) -> str | None:
    """Say why an open file is no source of settings, None if it is one. Raises OSError."""
    # Without the trusted uids of the environment: nobody but oneself and root sets a log file, or trusts others.
    rule = Trust()
    status, real = os.fstat(fd), os.path.realpath(path)
    problem = rule.file_problem(status, fd)
    if problem is None and not os.path.samestat(status, os.lstat(real)):
        problem = "was replaced just now"
    # Both the place of the file and that of a link to it, by which it was found.
    link = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    problem = problem or rule.parents_problem(real) or rule.parents_problem(link)
    return problem and problem.removesuffix(SEE_SETTING)


def _parse_file(path: str, data: bytes, problems: list[str], names: Collection[str]) -> dict[str, object]:
    parse = toml_parser()
    if parse is None:
        problems.append(f"{path} is ignored: reading TOML needs Python 3.11, or the package tomli")
        return {}
    if len(data) > _MAX_FILE:
        problems.append(f"{path} is ignored: it is larger than {_MAX_FILE} bytes")
        return {}
    try:
        found = parse(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        problems.append(f"{path} is ignored: {str(error) or 'nested too deeply'}")
        return {}
    problems.extend(
        f"{path}: {name!r:.100} is not a setting; known are {', '.join(names)}" for name in found if name not in names
    )
    return {name: value for name, value in found.items() if name in names}


def toml_parser() -> Callable[[str], dict[str, Any]] | None:
    """Return what parses TOML; None where neither Python nor a package has it."""
    try:
        import tomllib
    except ImportError:
        try:
            import tomli as tomllib  # type: ignore[no-redef,import-not-found,unused-ignore]
        except ImportError:
            return None
    return tomllib.loads
