"""A cold start: what this process's program is known to need is asked for at once, when it begins to miss.

Who builds it is a daemon, or with ``NBCACHE_JOBS`` a helper that is started here. The program goes on meanwhile.
Nothing is waited for in here, and nothing raises: where nobody can be asked, the program compiles as it would have.

It is asked for once in a process, at the first miss that is *worth* it: other processes have to import what this one
has imported, so there has to be some seconds' work for them. That is so where the whole profile was compiled with
another toolchain, where what is missing takes long by itself, and where this process has compiled for a while already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nbcache.client.logs import log
from nbcache.config import AUTO_JOBS, Settings
from nbcache.passing_exceptions import suppressed
from nbcache.process import opened, os, time
from nbcache.protocol import helper, profiles, spool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nbcache.glue.keys.units import Unit
    from nbcache.protocol.profiles import Profile
    from nbcache.store.directory import Store

LEAST_SECONDS: Final = 2.0
"""How long all of a profile takes for which it is worth to ask others [s]."""
WORTH_SECONDS: Final = 1.0
"""How long one missing function takes, or this process has compiled so far, that shows that much is missing [s]."""
IDLE_SECONDS: Final = 600.0
"""How long a helper stays that nobody asks for anything [s]."""
LATE_SECONDS: Final = 30.0
"""How long a helper that is there may have taken to begin [s]."""
_START_SECONDS: Final = 0.5
_SERVE: Final = (
    "os.nice(19)\nos.setsid()\nos.chdir('/')\nfrom nbcache.cli.main import main\nsys.exit(main(sys.argv[1:]))"
)


class ColdStart:
    """Of one process and store."""

    def __init__(self, settings: Settings, store: Store) -> None:
        """Look at nothing yet."""
        self._settings = settings
        self._store = store
        self._profile: Profile | None = None
        self._package = ""
        self._has_looked = False
        self._is_over = settings.recache or settings.on_miss == "compile"
        self._started: float | None = None
        """When a helper was started that hasn't been seen yet [s]; None if there is none."""

    def missed(self, unit: Unit, workers: int, compiled: float) -> tuple[Profile, list[str]] | None:
        """A function isn't there that the program itself asks for. Daemons have so many *workers*, and this process has
        *compiled* for so long [s]. Return what was asked for, if it was now, and the request for each worker.
        """
        if self._is_over:
            return None
        helps = 0 if workers else self._helpers()
        if not workers and not helps:
            return None
        profile = self._known(unit)
        if profile is None or profile.seconds < LEAST_SECONDS:
            self._is_over = True
        elif self._is_worth(profile, unit, compiled):
            self._is_over = True
            lanes = self._ask(profile, unit, workers or helps)
            if lanes:
                if helps:
                    self._start_helper(helps)
                return profile, lanes
        return None

    def _helpers(self) -> int:
        """How many workers a helper of this process's would have; 0 for none."""
        if not self._settings.jobs or not self._store.writable:
            return 0
        count = _processors()
        # The program takes one itself, and on no other one would anybody be of help.
        return _limited(self._settings.jobs, count) if count > 1 else 0

    def _known(self, unit: Unit) -> Profile | None:
        if not self._has_looked:
            self._has_looked = True
            from nbcache.client import profiling

            name, _what = profiling.program()
            self._profile = profiles.read(self._store.path, name, self._store.trust)
            if self._profile is None:
                self._package = unit.name.partition(":")[0].partition(".")[0]
                if self._package != "__main__":
                    self._profile = profiles.of_package(self._store.path, self._package, self._store.trust)
        return self._profile

    @staticmethod
    def _is_worth(profile: Profile, unit: Unit, compiled: float) -> bool:
        if compiled >= WORTH_SECONDS or profile.head.toolchain != unit.maker.conditions.summary():
            return True
        named = [at for at, each in enumerate(profile.units) if each.function == unit.name]
        return any(profile.chain(at) >= WORTH_SECONDS for at in named)

    def _ask(self, profile: Profile, unit: Unit, workers: int) -> list[str]:
        """Ask for a profile; return the request for each lane."""
        from nbcache.client import recording
        from nbcache.glue.requests.requested import UnaskableError

        lanes = profile.lanes(workers)
        try:
            asked = [
                spool.submit(
                    self._store.path, recording.lane_of(unit.maker, profile.head, self._package, lane)
                )
                for lane in range(lanes)
            ]  # fmt: skip
        except UnaskableError as exc:
            log.info("%s can't be built ahead: %s", profile.head.program, exc)
            return []
        log.info(
            "%s: much of what it needs is missing; %d workers were asked for the %d functions of its profile (%.0f s)",
            profile.head.program, lanes, len(profile.units), profile.seconds,
        )  # fmt: skip
        return [path for path in asked if path is not None]

    def _start_helper(self, workers: int) -> None:
        options = ["--dir", self._store.path, "--helper", "--workers", str(workers), "--idle", f"{IDLE_SECONDS:g}"]
        options += ["--job-result", "0"]
        if helper.detached(_SERVE, ["serve", *options], _START_SECONDS):
            self._started = time.monotonic()
        else:
            log.info("no helper can be started here for NBCACHE_JOBS")

    def is_in_vain(self, is_there: Callable[[], bool]) -> bool:
        """Whether a helper was started that should give signs of life by now, and none *is there*.

        It is said once. Where a helper fails nobody hears it: it must not write to the program's terminal.
        """
        if self._started is None:
            return False
        if is_there():
            self._started = None
            return False
        if time.monotonic() - self._started <= LATE_SECONDS:
            return False
        self._started = None
        log.info(
            "the helper that was started for NBCACHE_JOBS doesn't begin; nbcache serve --helper --dir %s says why",
            self._store.path,
        )
        return True


def workers_for(jobs: int) -> int:
    """How many workers NBCACHE_JOBS stands for here."""
    return _limited(jobs, _processors())


def _limited(jobs: int, processors: int) -> int:
    return processors if jobs == AUTO_JOBS else min(jobs, processors)


_GROUPS: Final = "/proc/self/cgroup"
_MOUNTED: Final = "/sys/fs/cgroup"


def _processors() -> int:
    """How many processors this process may use, and how many whole ones its groups have the time of."""
    try:
        count = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        count = os.cpu_count() or 1
    return min([count, *map(int, _quotas())])


def _quotas() -> Iterator[float]:
    """The time that each of this process's groups has (cgroups(7), in both versions), in processors."""
    for line in _words(_GROUPS, "\n"):
        _, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        if kinds and "cpu" not in kinds.split(","):
            continue
        # In a container, what is mounted may begin at its own group.
        while True:
            folder = f"{_MOUNTED}/cpu{path}" if kinds else f"{_MOUNTED}{path}"
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if kinds else ("cpu.max",)
            said = [word for name in names for word in _words(f"{folder.rstrip('/')}/{name}")]
            # "max" and -1 are no limit.
            if len(said) == 2 and said[0].isdigit() and said[1].isdigit() and int(said[1]):
                yield int(said[0]) / int(said[1])
            if path in {"", "/"}:
                break
            path = os.path.dirname(path)


def _words(path: str, separator: str | None = None) -> list[str]:
    with suppressed(OSError, ValueError), opened(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(1 << 16).split(separator)
    return []
