"""Settings, and where each came from. What else the environment holds, :mod:`nbcache.environ` reads; no other does.

A value comes from the environment, else from ``$XDG_CONFIG_HOME/nbcache/nbcache.toml`` (``~/.config`` when unset), else
from ``/etc/nbcache/nbcache.toml``, else it is the default. In a file, a setting is written without its prefix and in
lower case::

    dir = "/shared/nbcache"
    max_size = "20GiB"
    trusted_uids = [1001, "build"]

The environment counts for nothing where Python was told to ignore it (``-I``, ``-E``), nor in a process with other
rights than whoever started it; then only ``/etc`` is read. A file counts only if it is one's own or root's and nobody
else can write it, by the rule of :mod:`nbcache.file_trust` without any trusted uids: who may write settings says who is
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

from typing import TYPE_CHECKING, Any, Final, Literal

from nbcache import process
from nbcache.passing_exceptions import suppressed
from nbcache.process import os
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nbcache.secret import Secret

PREFIX: Final = "NBCACHE_"
SYSTEM_FILE: Final = "/etc/nbcache/nbcache.toml"
DEFAULT: Final = "default"
DEFAULT_MAX_SIZE: Final = 5 << 30
DEFAULT_WAIT_SECONDS: Final = 30.0
NAMESPACE: Final = "NUMBA_NBCACHE_NAMESPACE"
"""Where :func:`tell_namespace` puts it. Numba knows no such setting."""
AUTO_JOBS: Final = -1

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
    cpu: str = "host"
    """The processor to compile for: ``host``, or one of :mod:`nbcache.processors`."""
    cpu_ladder: tuple[str, ...] = ()
    """Lower levels whose entries are taken, in this order, where there is none for this process's own target."""
    layers: tuple[str, ...] | None = ()
    """Read-only stores that are looked into after the store itself, in this order, before those that packages declare;
    absolute. None: there are none, not even those."""
    remote: tuple[Secret[str], ...] = ()
    """The addresses of the remote tiers behind the store, from fast to slow (`nbcache.server_addresses`)."""
    trusted_keys: tuple[Secret[str], ...] = ()
    """Whose signed entries are taken from elsewhere (`nbcache.keyring`)."""
    signing_key: Secret[str] | None = None
    """The file with the key that signs what goes to the remote tiers, absolute. None: nothing goes there."""
    record: str | None = None
    """A warm list to append to, absolute."""
    count: str | None = None  # type: ignore[assignment]  # not the method that tuples have
    """The directory to record every compilation in, absolute; see `nbcache.count_record`. Works with `dir` unset."""
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


_known: tuple[Settings, Mapping[bytes, bytes], str, tuple[str, ...]] | None = None
"""Settings that were read where there were no files, and all else that they were read from: the environment, the
directory to which paths are relative, and the files that weren't there."""


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
    if known is not None and known[1:3] == (raw, directory) and not _any_exists(known[3]):
        return known[0]
    paths, said = tuple(files(env)), dict(raw or {})
    holds = raw is not None and directory and not _any_exists(paths)
    found = _read(env)
    _known = (found, said, directory, paths) if holds else None
    return found


def _any_exists(paths: Iterable[str]) -> bool:
    return any(map(os.path.lexists, paths))


def _is_absent(path: str) -> bool:
    """Whether there is no such file; one that can't be looked at may be there."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        pass
    return False


def _read(env: Mapping[str, str]) -> Settings:
    """Read the settings that an environment means, and files."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    sources = dict.fromkeys(NAMES, DEFAULT)
    # From the weakest source to the strongest.
    for path in reversed(files(env)):
        if _is_absent(path):
            continue
        from nbcache import settings_files  # most processes have none

        for name, value in settings_files.read(path, problems, NAMES).items():
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


def tell_namespace(namespace: str) -> None:
    """Set the namespace of this process among Numba's settings: so requests, warm lists and jobs have it as well."""
    if namespace:
        os.environ[NAMESPACE] = namespace
    else:
        os.environ.pop(NAMESPACE, None)


def namespace() -> str:
    """Return the namespace of this process; "" if it is in none."""
    return os.environ.get(NAMESPACE, "")


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the variables that begin with NBCACHE_ and mean nothing: likely misspelt."""
    env = environment() if environ is None else environ
    known = {PREFIX + name.upper() for name in NAMES}
    return sorted(name for name in env if name.startswith(PREFIX) and name not in known)


def _value(name: str, value: object) -> Any:
    """Read the value of a setting. Raises ValueError(given, accepted), two texts that may be shown."""
    if name == "dir" and isinstance(value, str) and value.startswith("/") and "\0" not in value:
        # Where the store is: many processes are told nothing else, and need no other reader.
        return os.path.abspath(value.strip())
    from nbcache import path_syntax

    if name in path_syntax.PATHS:
        return path_syntax.read_path(value)
    from nbcache.setting_syntax import read

    return read(name, value)


def _take(
    values: dict[str, Any], sources: dict[str, str], problems: list[str], *, name: str, value: object, source: str
) -> None:
    try:
        values[name] = _value(name, value)
    except ValueError as error:
        shown = source.removeprefix("environment ")
        where = shown if shown.startswith(PREFIX) else f"{name} in {shown.removeprefix('file ')}"
        given, accepted = error.args
        problems.append(f"{where}={given} is not understood and ignored: {accepted} is accepted")
    else:
        sources[name] = source


NAMES: Final = Settings._fields[: Settings._fields.index("sources")]
"""The settings, in the order of :class:`Settings`."""
