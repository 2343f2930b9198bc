"""Every command of the line: its name, the function that carries it out, its help, and what it takes.

The module of a command is imported when the command runs: a Python that nobody verified may lack what another one
needs.
"""

from __future__ import annotations

import argparse
import importlib
import time
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from nbcache import setting_syntax
from nbcache.cli.store_option import DEFAULT
from nbcache.store.quarantine import CRASHES

REPORT: Final = "nbcache-report.html"
"""Where a report goes."""
HEALTH_SECONDS: Final = 5.0
"""How long `health` may take [s]."""
Taken = tuple[tuple[str, ...], dict[str, Any]]
"""What a command takes: names, and what :mod:`argparse` wants to know of it."""


class Command(NamedTuple):
    """One of them."""

    name: str
    place: str
    """``module:function`` in this room."""
    help: str
    description: str
    takes: tuple[Taken, ...] = ()
    usage: str | None = None

    def add_to(self, commands: Any, shared: argparse.ArgumentParser) -> None:
        """Add it to a command line."""
        words = {"help": self.help, "description": self.description, "usage": self.usage}
        parser = commands.add_parser(self.name, parents=[shared], **words)
        for names, settings in self.takes:
            parser.add_argument(*names, **settings)
        parser.set_defaults(command=partial(_call, self.place))


def _call(place: str, args: argparse.Namespace) -> int:
    module, _, function = place.partition(":")
    status: int = getattr(importlib.import_module(f"nbcache.cli.{module}"), function)(args)
    return status


def uids(text: str) -> range:
    """Return the uids that ``FIRST-LAST`` names. Raises ValueError."""
    first, dash, last = text.partition("-")
    # argparse says what is wrong with it. Not 0: jobs of root are what it is there to avoid.
    found = range(int(first), int(last if dash else first) + 1)
    if not found or found[0] < 1 or found[-1] >= (1 << 32) - 1:
        raise ValueError(text)
    return found


def moment(text: str) -> float:
    """Return the time [s since 1970] that ``2h``, ``7d`` or a date names. Raises ValueError."""
    if text[-1:].islower():
        return time.time() - setting_syntax.seconds(text)
    return datetime.fromisoformat(text).timestamp()


def _take(name: str, metavar: str | None, words: str, **settings: Any) -> Taken:
    return (name,), {"help": words, "metavar": metavar, **settings}


def _flag(name: str, words: str) -> Taken:
    return (name,), {"help": words, "action": "store_true"}


def _each(name: str, metavar: str, words: str) -> Taken:
    """An option that may be given several times."""
    return _take(name, metavar, words, action="append", default=[])


def _rest(words: str = "the command to run, with its arguments") -> Taken:
    """Everything that follows: a command to be run."""
    return _take("argv", "COMMAND", words, nargs=argparse.REMAINDER)


_JSON: Final = _flag("--json", "print JSON")
_NAME: Final = _take("name", "NAME", "a published name")
_NAMES: Final = _take("name", "NAME", "a published name", nargs="+")
_JOBS: Final = (
    _take("--workers", "N", "how many jobs run at once (default: one for each processor)", type=int, default=0),
    _take("--job-seconds", "S", "how many seconds a job may take (default: 300)", type=float, default=300.0),
    _take("--job-memory", "SIZE", "how much memory a job may use (default: 4GiB); 0 for no limit", default="4GiB"),
    _take("--job-result", "SIZE", "how much a job may build in all (default: 64MiB); 0 for no limit", default="64MiB"),
)  # fmt: skip
COMMANDS: Final = (
    Command(
        "run", "run:run", "run a command with the cache switched on",
        f"Run a command with NBCACHE_DIR set: to --dir, else to what the settings say, else to {DEFAULT}.",
        (
            _flag("--progress", "say on the terminal what is being compiled and waited for (NBCACHE_PROGRESS)"),
            _flag("--stats", "at the end, print one line with hits, compilations and what was saved"),
            _rest(),
        ),
        "nbcache run [--dir DIR] [--progress] [--stats] -- COMMAND [ARGUMENT ...]",
    ),
    Command(
        "check", "run:check", "run a command and compare each hit with what Numba compiles",
        "Run a command with NBCACHE_CHECK=all: each function found in the store is also compiled, and compared. "
        "Exit status: 0 if nothing was different, 1 if something was or the command failed.",
        (_rest(),), "nbcache check [--dir DIR] -- COMMAND [ARGUMENT ...]",
    ),
    Command(
        "serve", "serve:serve", "run a daemon that builds what programs ask for",
        "Run a daemon in the foreground: build the functions that programs ask for, until SIGTERM. SIGHUP makes it "
        "read its settings again.",
        (
            _take("--name", None, "its name, as `nbcache status` shows it (default: the host's name)", default=""),
            *_JOBS,
            _take(
                "--job-uids", "FIRST-LAST", "the uids as which a daemon that is root runs its jobs (default: uids "
                "without an account, from 1900000000)", type=uids,
            ),
            _take(
                "--farm", "ADDRESS", "build on the Dask cluster whose scheduler has this address, such as "
                "tls://HOST:8786 (needs nbcache[dask])",
            ),
            _take(
                "--farm-away", None, "while the cluster can't be reached, build on this host (default), or wait for it",
                choices=("build", "wait"), default="build",
            ),
            _take(
                "--state", "DIR",
                "a directory on local disk for the audit log (default: $STATE_DIRECTORY or /var/lib/nbcache)",
            ),
            _take("--idle", "S", "end after S seconds without a request (default: never)", type=float, default=0.0),
            _flag("--watch", "also build what changes when a source file of a program is saved"),
            _flag(
                "--helper", "accept requests of this user alone, at the lowest priority, and end if another helper "
                "runs; NBCACHE_JOBS starts such a daemon",
            ),
            _take(
                "--metrics", "PORT|ADDRESS:PORT|FILE.prom",
                "where Prometheus reads metrics: a PORT of 127.0.0.1, or a file for node_exporter",
            ),
        ),
    ),
    Command(
        "watch", "watch:watch", "run a command, and build its functions again when a source file is saved",
        "Run a command once, with the cache switched on. Whenever a source file is saved, compile in the background "
        "the functions that it changes, until Ctrl-C. FOLDERs say which files count (default: all that the program has "
        "imported). NBCACHE_JOBS says how many workers there are (default: auto). The exit status is the command's.",
        (_rest("folders, then -- and a command to run once"),),
        "nbcache watch [--dir DIR] [FOLDER ...] [-- COMMAND [ARGUMENT ...]]",
    ),
    Command(
        "status", "serve:status", "show daemons, queue and failures",
        "Show what the daemons of a store are doing, what waits, and what failed.", (_JSON,),
    ),
    Command(
        "prewarm", "prewarm:prewarm", "build functions before a program needs them",
        "Build functions and store them: those of a warm list (NBCACHE_RECORD writes one), those that a module has "
        "signatures for, those that a program uses, or those of the store for another toolchain or other settings. "
        "Exit status 1 if anything could not be built.",
        (
            _take("list", "LIST", "warm lists to build; - for standard input", nargs="*"),
            _each("--module", "MODULE", "import MODULE and build every signature that it declares"),
            _flag("--from-store", "build everything in the store again, for this toolchain and these settings"),
            _take("--run", "COMMAND", "run a program and build what it used; has to be the last option", nargs="+"),
            _take(
                "--cpu", "CPU,...",
                "build for these processors, such as x86-64-v3,x86-64-v4, whether or not this host is one",
            ),
            _take(
                "--cc", "CC,...",
                "build kernels for these compute capabilities, such as 8.0,9.0a, with or without a GPU",
            ),
            _take(
                "--dask", "ADDRESS",
                "build on the Dask cluster whose scheduler is there, such as tls://HOST:8786 (needs nbcache[dask])",
            ),
            _flag(
                "--confined",
                "keep imported modules from writing anything, as in a daemon's jobs; fail if the kernel can't do that",
            ),
            *_JOBS,
            _JSON,
        ),
    ),
    Command(
        "bundle", "bundle:bundle",
        "write compiled functions into one signed file, or into a folder (a layer) for a package",
        "Write the store, or what a program compiles, or what warm lists name, into one FILE for nbcache load-bundle. "
        "NBCACHE_SIGNING_KEY signs it. With --layer: run a program that uses a package, once for each processor, and "
        "put what Numba compiled into a folder that goes into the wheel of the package (docs/layers.md). Exit status 1 "
        "if something could not be built.",
        (
            _take("--layer", "DIR", "make a layer in this folder; what the folder holds already stays"),
            _take(
                "--cpu", "CPU,...", "the processors to build for, such as x86-64-v2,x86-64-v3 (default: x86-64-v3, on "
                "AArch64 neoverse-n1)",
            ),
            _each(
                "--only", "PACKAGE",
                "only functions of this package, and of Numba's inside them; can be given several times",
            ),
            *_JOBS,
            _rest("FILE and warm lists, or FILE, -- and a command; with --layer, -- and a command"),
        ),
        "nbcache bundle FILE [LIST ...] [-- COMMAND [ARGUMENT ...]]\n"
        "       nbcache bundle --layer DIR [--cpu CPU,...] [--only PACKAGE] -- COMMAND [ARGUMENT ...]",
    ),
    Command(
        "stats", "stats:show_stats", "show hits, misses by reason, compilation saved and the size of the store",
        "Show what all processes that used the store have done so far, and what is in the store.",
        (
            _take(
                "--since", "WHEN", "only what was counted since then: a time ago such as 30m, 2h or 7d (by the hour; "
                "by the day beyond two weeks), or a date such as 2026-11-27", type=moment,
            ),
            _flag("--zero", "set all counts to zero"),
            _JSON,
        ),
    ),
    Command(
        "report", "reporting.page:report", "write an HTML page about the store",
        "Write one HTML page: hit rate over time, what costs most, why functions miss, what would be evicted, "
        "and which packages keep changing keys. It needs no network and holds no script.",
        (
            _take(
                "file", "FILE", f"where to write it (default: {REPORT}); - for standard output", nargs="?",
                default=REPORT,
            ),
            _take("--max-size", "SIZE", "show what would be evicted at this size (default: NBCACHE_MAX_SIZE)"),
        ),
    ),
    Command(
        "ls", "entries:list_entries", "list entries",
        "List the entries of the store, the most recently used last.",
        (
            _take(
                "text", "TEXT", "list only entries with this text in their function, signature or kind", nargs="?",
                default="",
            ),
            _JSON,
        ),
    ),
    Command(
        "show", "entries:show_entry", "show one entry, or what is published under a name",
        "Show an entry: its header, its sections, and every component of its key; or a publication: its versions and "
        "what it refers to.",
        (_take("key", "KEY", "the key of an entry, or the beginning of it; or a published name"), _JSON),
    ),
    Command(
        "why", "why:show_why", "explain why a function was compiled again",
        "Compare the newest entry of a function with the older entry that is most similar, and list what differs.",
        (
            _take("function", "FUNCTION", "the function as MODULE:QUALNAME, or the end of that"),
            _flag("--all", "explain every entry, not only the newest"),
            _JSON,
        ),
    ),
    Command(
        "verify", "upkeep:verify", "check every byte of every entry",
        "Check every byte of every entry against its checksums.",
        (_flag("--remove", "remove the entries that are damaged"),),
    ),
    Command(
        "gc", "upkeep:collect", "evict the least recently used entries",
        "Evict the least recently used entries until the store has the given size, and remove leftovers of crashed "
        "processes.",
        (
            _take(
                "--max-size", "SIZE",
                "the size to reach, such as 500MiB; 0 for no limit (default: NBCACHE_MAX_SIZE)",
            ),
            _flag("--dry-run", "only say what would be evicted"),
        ),
    ),
    Command(
        "clear", "upkeep:clear", "remove every entry that isn't published",
        "Remove every entry of the store that no published name refers to. Statistics are kept.",
        (
            _take("--namespace", "NAME", "only entries that programs with NBCACHE_NAMESPACE=NAME made"),
            _flag("--yes", "don't ask for confirmation"),
        ),
    ),
    Command(
        "publish", "published_names:publish", "publish a compiled function by name, for processes without Numba",
        "Import MODULE and publish FUNCTION of it under NAME, for nbcache.load(NAME) in processes without Numba. "
        "FUNCTION is what @njit, @vectorize, @guvectorize or @cfunc returned, or a dict of such functions.",
        (
            _take("name", "NAME", "such as pricing.black_scholes"),
            _take("function", "MODULE:FUNCTION", "where it is defined; the current directory is searched as well"),
            _take(
                "signature", "SIG", "a signature to compile and publish, such as 'float64(float64[::1], int64)' "
                "(default: all that it has been compiled for)", nargs="*",
            ),
            _take(
                "--numba", None, "allow: if the function can't run without Numba, publish where it is defined; "
                "nbcache.load(NAME, numba='allow') then compiles it", choices=("forbid", "allow"), default="forbid",
            ),
            _take("--expires", "AGE", "how long it is kept, such as 90s, 15m, 12h or 1d (default: for ever)"),
            _take("--cpu", "CPU,...", "which processors it is for, such as x86-64-v3,x86-64-v4 (default: this one)"),
        ),
    ),
    Command(
        "names", "published_names:list_names", "list what is published",
        "List the functions that are published by name, for nbcache.load(NAME).",
        (_take("text", "TEXT", "list only names with this text in them", nargs="?", default=""), _JSON),
    ),
    Command(
        "unpublish", "published_names:unpublish", "remove published functions",
        "Remove what is published under each NAME, in all versions. What it refers to may then be evicted. Processes "
        "that have loaded it keep it. NAME may be a pattern, such as 'queries.*'.",
        (_NAMES, _take("--older-than", "AGE", "only what was published before that, such as 90s, 15m, 12h or 1d")),
    ),
    Command(
        "fetch", "published_names:fetch", "copy a published function to another store",
        "Copy what is published under each NAME, with all that loading it needs, into another store, such as one on "
        "this node's own disk. Every byte is checked.",
        (_NAMES, _take("--to", "DIR", f"the other store (default: {DEFAULT})", default=DEFAULT)),
    ),
    Command(
        "export", "published_names:export", "make a wheel, stubs or a C header of a published function",
        "Make a wheel of what is published under NAME: a package for this platform that needs neither Numba nor "
        "nbcache. This needs nbcache[wheel] here, and a linker where it was published. --stubs makes stubs for type "
        "checkers, --header a header for C.",
        (
            _NAME,
            _take("--wheel", "DIR", "where the wheel is put"),
            _take("--header", "FILE", "write a header for C, such as sales.h, and sales.so beside it"),
            _take("--stubs", "FILE", "write what it takes and returns for type checkers, such as sales.pyi"),
            _take("--package", None, "the package's name (default: NAME, with underscores)"),
            _each(
                "--requires", "REQUIREMENT",
                "what has to be installed with it, such as the package that its exceptions come from",
            ),
        ),
    ),
    Command(
        "remote", "remote:remote", "show how the remote cache is doing, or end its helper",
        "Show how the servers of NBCACHE_REMOTE are doing, as seen by the helper process that talks to them. `stop` "
        "ends that helper; the next program that misses something starts one again.",
        (
            _take("action", None, "default: status", choices=("status", "stop"), nargs="?", default="status"),
            _JSON,
        ),
    ),
    Command(
        "push", "remote:push", "upload the store to the remote cache",
        "Upload every entry of the store to the servers of NBCACHE_REMOTE, signed with NBCACHE_SIGNING_KEY. What is "
        "there already stays, unless it is damaged. Exit status 1 if something could not be uploaded.",
    ),
    Command(
        "pull", "remote:pull", "fetch from the remote cache into the store",
        "Fetch into the store what the servers of NBCACHE_REMOTE hold: all that was pushed, or what warm lists name. "
        "Exit status 1 if something could not be fetched.",
        (_take("list", "LIST", "warm lists (default: all that `nbcache push` sent)", nargs="*"),),
    ),
    Command(
        "load-bundle", "bundle:load", "load a file of `nbcache bundle` into the store",
        "Load the entries of a bundle into the store, if a key in NBCACHE_TRUSTED_KEYS signed them. Exit status 1 if "
        "any was refused.",
        (_take("file", "FILE", "the bundle"),),
    ),
    Command(
        "key", "signing:key", "make keys that sign entries; sign and verify bundles",
        "Make the keys that sign what goes to a remote cache (NBCACHE_SIGNING_KEY), and print their public halves "
        "(NBCACHE_TRUSTED_KEYS). The holder of a signing key executes code wherever its public half is trusted.",
        (
            _take(
                "action", None, "generate NAME FILE makes a key; public FILE prints its public half; "
                "sign BUNDLE; verify BUNDLE",
                choices=("generate", "public", "sign", "verify"),
            ),
            _take("words", "WORD", "NAME and FILE of a key, or a BUNDLE: see the actions", nargs="+"),
            _take("--until", "YYYY-MM-DD", "the last day on which a new key is valid", default=""),
        ),
    ),
    Command(
        "profile", "profile:profile", "list, show or remove what programs are known to compile",
        "A profile lists what a program compiles; each program leaves one. When much of it is missing in the store, "
        "workers build all of it at once (NBCACHE_JOBS, or a daemon).",
        (
            _take("action", None, "ls lists; show NAME prints one; rm NAME drops it", choices=("ls", "show", "rm")),
            _take("name", "NAME", "the beginning of a profile's name, or the file name of its program", nargs="*"),
            _JSON,
        ),
    ),
    Command(
        "quarantine", "upkeep:show", "list entries that crashed programs, or that were wrong",
        "List the entries with which programs crashed, seconds after the first call, and those that NBCACHE_CHECK "
        f"found to be wrong. After {CRASHES} crashes an entry is skipped, and a daemon builds it again.",
        (
            _take("key", "KEY", "list only entries whose key begins with this", nargs="*"),
            _flag("--clear", "forget what was noted, so that the entries are used again"),
            _JSON,
        ),
    ),
    Command(
        "doctor", "doctor:examine", "check the setup; say what is wrong and what to do",
        "Check versions, settings, the store, and whether Python loads nbcache. Nothing is changed. With a COMMAND: "
        "run it, and say what Numba compiled in it and in its children.",
        (_JSON, _rest("run this command and count the compilations in it")),
        "nbcache doctor [--dir DIR] [--json] [-- COMMAND [ARGUMENT ...]]",
    ),
    Command(
        "health", "health:health", "check that a daemon builds a function that then loads and runs",
        "Have a daemon build a new function, then load and call it. Print one line; the exit status is 0 if all went "
        "well. Nothing is left behind.",
        (
            _take(
                "--timeout", "S", f"how many seconds it may take in all (default: {HEALTH_SECONDS:g})", type=float,
                default=HEALTH_SECONDS,
            ),
            _JSON,
        ),
    ),
    Command(
        "metrics", "stats:metrics", "print metrics for Prometheus",
        "Print metrics of a store in Prometheus' text format, or write them to a file for node_exporter. A daemon "
        "exports metrics of its own, too: `nbcache serve --metrics`.",
        (
            _take("--textfile", "FILE", "replace FILE, which the textfile collector of node_exporter reads"),
        ),
    ),
    Command(
        "config", "stats:show_config", "show each setting and where it came from",
        "Show each setting, its value, and whether it came from the environment, a file or the defaults.", (_JSON,),
    ),
)  # fmt: skip
"""In the order in which help lists them."""
