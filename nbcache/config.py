"""Settings, and where each came from. The only reader of ``os.environ``.

A value comes from the environment, else from ``$XDG_CONFIG_HOME/nbcache/nbcache.toml`` (``~/.config`` when unset), else
from ``/etc/nbcache/nbcache.toml``, else it is the default. In a file, a setting is written without its prefix and in
lower case::

    dir = "/shared/nbcache"
    max_size = "20GiB"
    trusted_uids = [1001, "build"]

The environment counts for nothing where Python was told to ignore it (``-I``, ``-E``), nor in a process with other
rights than whoever started it; then only ``/etc`` is read. A file counts only if it is one's own or root's and nobody
else can write it, by the rule of :mod:`nbcache.trust` without any trusted uids: who may write settings says who is
trusted.

Reading never fails. What can't be read keeps its default and leaves one line in ``Settings.problems``, which names the
setting, the value and what is accepted. An empty variable counts as unset.

Values
------
- flags: ``1 true yes on`` and ``0 false no off``
- fractions: ``all``, ``none``, or a number from 0 to 1
- sizes [bytes]: a number and a unit; ``k M G T`` are powers of 1000, ``Ki Mi Gi Ti`` of 1024, a ``B`` may follow; 0 is
  "no limit"
- times [s]: a number and ``ms s m h``; without a unit, seconds
- uids: numbers or user names, separated by commas
- umask: octal digits, in a file as text, such as ``"022"``
- processors: ``host``, a level such as ``x86-64-v3`` or ``v3``, or a name such as ``haswell`` or ``neoverse-n1``
  (:mod:`nbcache.processors`); several of them separated by commas
- several paths: separated by ``:`` as in ``PATH``, in a file as a list
- addresses, keys: with spaces between them (keys also with commas), in a file also as a list
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from nbcache import process
from nbcache.passing import suppressed
from nbcache.process import os
from nbcache.records import Record
from nbcache.values import HOST, READERS, read

if TYPE_CHECKING:
    from nbcache.secret import Secret

PREFIX: Final = "NBCACHE_"
SYSTEM_FILE: Final = "/etc/nbcache/nbcache.toml"
DEFAULT: Final = "default"
DEFAULT_MAX_SIZE: Final = 5 << 30
DEFAULT_WAIT_SECONDS: Final = 30.0
NAMESPACE: Final = "NUMBA_NBCACHE_NAMESPACE"
"""Where :func:`tell_namespace` puts it. Numba knows no such setting."""
AUTO_JOBS: Final = -1
_MAX_FILE: Final = 1 << 20
_CREDENTIALS: Final = ("AWS_", "AZURE_", "AZBLOB_", "GOOGLE_", "GCS_")

OnMiss = Literal["auto", "wait", "compile"]


class Settings(Record):
    """All settings of one process. Made by :func:`load`; the defaults are those of an empty environment."""

    dir: str | None = None
    """The store, absolute. None: nbcache is off."""
    disable: bool = False
    disable_all: bool = False
    """Neither nbcache nor Numba's own cache."""
    namespace: str = ""
    """A part of every key: entries of one namespace are none in another."""
    readonly: bool = False
    """Never publish an entry."""
    recache: bool = False
    """Treat every look-up as a miss and replace what is there."""
    check: float = 0.0
    """What fraction of hits is compiled all the same, and compared (:mod:`nbcache.client.checking`)."""
    unverified: bool = False
    """Try with a Python or a Numba that nbcache was never verified with."""
    jobs: int = 0
    """How many workers a helper of this process has that compiles ahead of it, where no daemon does. 0: there is none;
    :data:`AUTO_JOBS`: as many as there are processors."""
    progress: bool = False
    """Say on a terminal what is being compiled and waited for."""
    on_miss: OnMiss = "auto"
    wait_seconds: float = DEFAULT_WAIT_SECONDS
    """The longest wait for somebody else's compile [s]."""
    wait_budget: float | None = None
    """How long a process waits in all, beyond what compiling would have taken [s]. None: see :attr:`waiting_in_all`."""
    max_size: int = DEFAULT_MAX_SIZE
    """[bytes]; 0 for no limit."""
    trusted_uids: frozenset[int] = frozenset()
    """Whose files are trusted besides one's own and root's."""
    umask: int | None = None
    """What others may not do with the files of the store. None: the process's own umask says so."""
    cpu: str = HOST
    """The processor to compile for: ``host``, or one of :mod:`nbcache.processors`."""
    cpu_ladder: tuple[str, ...] = ()
    """Lower levels whose entries are taken, in this order, where there is none for this process's own target."""
    layers: tuple[str, ...] | None = ()
    """Read-only stores that are looked into after the store itself, in this order, before those that packages declare;
    absolute. None: there are none, not even those."""
    remote: tuple[Secret[str], ...] = ()
    """The addresses of the remote tiers behind the store, from fast to slow (`nbcache.remotes`)."""
    trusted_keys: tuple[Secret[str], ...] = ()
    """Whose signed entries are taken from elsewhere (`nbcache.keyring`)."""
    signing_key: Secret[str] | None = None
    """The file with the key that signs what goes to the remote tiers, absolute. None: nothing goes there."""
    record: str | None = None
    """A warm list to append to, absolute."""
    count: str | None = None  # type: ignore[assignment]  # not the method that tuples have
    """The directory to record every compilation in, absolute; see `nbcache.tally`. Works with `dir` unset."""
    stats_log: str | None = None
    """A file to which a line is added of what a process hit and compiled when it ends, absolute."""
    log: str = "WARNING"
    log_file: str | None = None
    """Absolute."""
    sources: Mapping[str, str] = {}
    """Setting to ``"default"``, ``"environment NBCACHE_X"`` or ``"file /path"``."""
    problems: tuple[str, ...] = ()
    """One line for each value that couldn't be read."""

    @property
    def waiting_in_all(self) -> float:
        """The budget of waiting of one process [s]: where none is set, whoever wants longer waits has one for them."""
        return max(DEFAULT_WAIT_SECONDS, self.wait_seconds) if self.wait_budget is None else self.wait_budget

    @property
    def says_how_long(self) -> bool:
        """Whether somebody set how long is waited for others, in place of the defaults."""
        named = any(self.sources.get(name, DEFAULT) != DEFAULT for name in ("wait_seconds", "wait_budget"))
        return named or self.wait_seconds != DEFAULT_WAIT_SECONDS or self.wait_budget is not None


class _Known(Record):
    """Settings that were read where there were no files, and all else that they were read from."""

    settings: Settings
    environ: Mapping[bytes, bytes]
    directory: str
    """The one to which paths are relative."""
    absent: tuple[str, ...]


_known: _Known | None = None


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of this process, or those a given environment means. Never raises."""
    return _own() if environ is None else _read(environ)


def _own() -> Settings:
    """Read the settings of this process, unless what was read before holds: who loads functions asks before each."""
    global _known  # noqa: PLW0603
    env, directory, known = environment(), "", _known
    raw = getattr(env, "_data", None)  # past the mapping, which decodes every variable
    with suppressed(OSError):
        directory = os.getcwd()
    if known is not None and (known.environ, known.directory) == (raw, directory) and not _any_exists(known.absent):
        return known.settings
    paths, said = tuple(files(env)), dict(raw or {})
    holds = raw is not None and directory and not _any_exists(paths)
    found = _read(env)
    _known = _Known(found, said, directory, paths) if holds else None
    return found


def _any_exists(paths: Iterable[str]) -> bool:
    return any(map(os.path.lexists, paths))


def _read(env: Mapping[str, str]) -> Settings:
    """Read the settings that an environment means, and files."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    sources = dict.fromkeys(NAMES, DEFAULT)
    # From the weakest source to the strongest.
    for path in reversed(files(env)):
        for name, value in _read_file(path, problems).items():
            _take(values, sources, problems, name=name, value=value, source=f"file {path}")
    # To ask for each would raise, and catch, an exception for each that isn't there.
    said = {variable for variable in env if variable.startswith(PREFIX)}
    for name in NAMES:
        variable = PREFIX + name.upper()
        if variable in said and env[variable].strip():
            _take(values, sources, problems, name=name, value=env[variable], source=f"environment {variable}")
    return Settings(**values, sources=sources, problems=tuple(problems))


def environment() -> Mapping[str, str]:
    """Return the environment of this process, or nothing where it doesn't count."""
    return os.environ if process.heeds_environment() else {}


def files(env: Mapping[str, str]) -> list[str]:
    """Return the paths of the files that may hold settings, the strongest first."""
    home, base = env.get("HOME", ""), env.get("XDG_CONFIG_HOME", "")
    # The specification of XDG says to ignore a relative path.
    if not os.path.isabs(base):
        base = f"{home}/.config" if os.path.isabs(home) else ""
    return [*([f"{base}/nbcache/nbcache.toml"] if base else []), SYSTEM_FILE]


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the variables that begin with NBCACHE_ and mean nothing: likely misspelt."""
    env = environment() if environ is None else environ
    known = {PREFIX + name.upper() for name in NAMES}
    return sorted(name for name in env if name.startswith(PREFIX) and name not in known)


def runtime_directory(longest: int) -> str:
    """Return the directory for sockets of this user alone, which may not be there yet.

    Below ``$XDG_RUNTIME_DIR`` or ``/run/user/UID``, which belong to one user; else in ``/tmp``, also where the path is
    longer than that, or is another user's: ``su`` and ``sudo`` may leave the variable as it was.
    """
    for base in (environment().get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"):
        if os.path.isabs(base) and len(os.fsencode(base)) + len("/nbcache") <= longest and _is_ones_own(base):
            return f"{base.rstrip('/')}/nbcache"
    return f"/tmp/nbcache-{os.geteuid()}"  # noqa: S108  whose it is, is looked at


def standard_error_is_the_journal() -> bool:
    """Whether systemd's journal reads what is written to standard error: systemd.exec(5), ``$JOURNAL_STREAM``."""
    try:
        status = os.fstat(2)
    except OSError:
        return False
    return environment().get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _is_ones_own(directory: str) -> bool:
    try:
        status = os.stat(directory)
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o022


def credentials() -> str:
    """Return a digest of the environment's credentials for clouds: who has others needs another helper."""
    import hashlib

    own = sorted((name, value) for name, value in os.environ.items() if name.startswith(_CREDENTIALS))
    return hashlib.blake2b(repr(own).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def for_children() -> dict[str, str]:
    """Return the whole environment, for a process that speaks to servers: proxies, certificates, credentials."""
    return dict(os.environ)


def inherited(names: Iterable[str]) -> dict[str, str]:
    """Return those of these variables that are set, to be passed on to another process."""
    return {name: os.environ[name] for name in names if name in os.environ}


def child_environment(root: str, record: str) -> dict[str, str]:
    """Return the environment for a program that is to use the store *root* and to write a warm list."""
    return {**os.environ, "NBCACHE_DIR": root, "NBCACHE_RECORD": record}


def exercise_environment(root: str, record: str, cpu: str) -> dict[str, str]:
    """Return the environment for a program whose compilations are to become a layer, for the processor *cpu*.

    Whatever is compiled is stored in *root*: nothing comes out of other layers or from elsewhere, and no setting says
    otherwise, nor one in a file.
    """
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) or name[len(PREFIX) :].lower() in _KEPT
    }
    settings = {"DIR": root, "RECORD": record, "CPU": cpu, "LAYERS": "none", "REMOTE": "none"}
    settings |= dict.fromkeys(("DISABLE", "READONLY", "RECACHE"), "no")
    return {**plain, **{PREFIX + name: value for name, value in settings.items()}}


def numba_settings() -> dict[str, str]:
    """Return Numba's own settings in the environment, which it reads again before each compilation."""
    # Past the mapping, which decodes every variable; each function that is compiled asks.
    raw = getattr(os.environ, "_data", None)
    if raw is None or os.name != "posix":
        return {name: os.environ[name] for name in os.environ if name.startswith("NUMBA_")}
    return {os.fsdecode(name): os.fsdecode(value) for name, value in raw.items() if name.startswith(b"NUMBA_")}


def tell_numba(cpu_name: str, cpu_features: str) -> None:
    """Set what Numba compiles for, in the environment: there it looks, and so do the daemons' interpreters."""
    os.environ.update(processor_settings(cpu_name, cpu_features))


def tell_namespace(namespace: str) -> None:
    """Set the namespace of this process among Numba's settings: so requests, warm lists and jobs have it as well."""
    if namespace:
        os.environ[NAMESPACE] = namespace
    else:
        os.environ.pop(NAMESPACE, None)


def namespace() -> str:
    """Return the namespace of this process; "" if it is in none."""
    return os.environ.get(NAMESPACE, "")


def tell_numba_nothing() -> None:
    """Take that back."""
    for name in processor_settings(""):
        os.environ.pop(name, None)


def processor_settings(cpu_name: str, cpu_features: str = "") -> dict[str, str]:
    """Return Numba's settings that name a processor. Without the second, the host's features would be used for it."""
    return {"NUMBA_CPU_NAME": cpu_name, "NUMBA_CPU_FEATURES": cpu_features}


def _take(
    values: dict[str, Any], sources: dict[str, str], problems: list[str], *, name: str, value: object, source: str
) -> None:
    try:
        values[name] = read(name, value)
    except ValueError as error:
        shown = source.removeprefix("environment ")
        where = shown if shown.startswith(PREFIX) else f"{name} in {shown.removeprefix('file ')}"
        given, accepted = error.args
        problems.append(f"{where}={given} is not understood and ignored: {accepted} is accepted")
    else:
        sources[name] = source


def _read_file(path: str, problems: list[str]) -> dict[str, object]:
    """Return the known settings of a file. A missing file costs one failed ``open``."""
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
    return _parse_file(path, data, problems)


def _distrust(path: str, fd: int) -> str | None:
    """Say why an open file is no source of settings, None if it is one. Raises OSError."""
    # Imported here: most processes have no such file.
    from nbcache.trust import SEE_SETTING, Trust

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


def _parse_file(path: str, data: bytes, problems: list[str]) -> dict[str, object]:
    parse = _toml_parser()
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
        f"{path}: {name!r:.100} is not a setting; known are {', '.join(NAMES)}" for name in found if name not in READERS
    )
    return {name: value for name, value in found.items() if name in READERS}


def _toml_parser() -> Callable[[str], dict[str, Any]] | None:
    # Imported here: most processes have no such file, and the parser costs milliseconds.
    try:
        import tomllib
    except ImportError:
        try:
            import tomli as tomllib  # type: ignore[no-redef,import-not-found,unused-ignore]
        except ImportError:
            return None
    return tomllib.loads


_KEPT: Final = frozenset({"progress", "log", "log_file", "trusted_uids", "umask", "count", "unverified"})
"""The settings that say nothing about what is found and stored."""
NAMES: Final = tuple(name for name in Settings._fields if name in READERS)
"""The settings, in the order of :class:`Settings`."""
