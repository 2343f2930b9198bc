"""Which store a command works on: ``--dir``, else the settings, else ~/.cache/nbcache if that is there.

The last is where ``nbcache run`` puts a store when nobody says otherwise, so that ``run`` and then ``stats`` just work.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nbcache import config
from nbcache.cli.text import CommandError, UsageError
from nbcache.config import Settings
from nbcache.file_trust import Trust
from nbcache.importing import Paths
from nbcache.keyring import Keyring
from nbcache.secret import revealed
from nbcache.store import layout
from nbcache.store.directory import Store
from nbcache.store.layers import Place, open_layer
from nbcache.store.opened import Refusal

DEFAULT = "~/.cache/nbcache"
FOUND = f"{DEFAULT} exists"
"""Where a directory comes from that only commands use: programs have none."""


def settings_of(args: argparse.Namespace) -> Settings:
    """Return the settings as `args` changes them. `dir` is absolute, or None when nobody named one."""
    settings = config.load()
    default = os.path.expanduser(DEFAULT)
    if args.dir is not None:
        if not args.dir or "\0" in args.dir:
            raise UsageError(f"--dir: not a path: {args.dir!r}")
        directory, source = os.path.abspath(os.path.expanduser(args.dir)), "--dir"
    elif settings.dir is None and os.path.isdir(default):
        directory, source = default, FOUND
    else:
        return settings
    return settings._replace(dir=directory, sources={**settings.sources, "dir": source})


def directory_of(settings: Settings) -> str:
    """Return the directory that settings name, whether or not it is there. Raises CommandError if they name none."""
    if settings.dir is None:
        raise CommandError("no cache directory: set NBCACHE_DIR or pass --dir DIR")
    return settings.dir


def opened(settings: Settings) -> Store:
    """Open the store that settings name, making it if they let it be written; raise CommandError with the reason."""
    directory_of(settings)
    store = Store.open(settings)
    if isinstance(store, Refusal):
        raise CommandError(store.reason)
    return store


def layer_places(settings: Settings) -> list[Place]:
    """Return where layers of these settings are said to be, in the order in which they are looked into."""
    from nbcache.glue.identity import entry_points

    if settings.layers is None:
        return []
    named = [Place(path, path) for path in settings.layers]
    return [*named, *(Place(name, path) for name, path in entry_points.layers())]


def open_layers(args: argparse.Namespace) -> list[Store]:
    """Return the layers that may be used."""
    settings = settings_of(args)
    trust, keyring = Trust(settings.trusted_uids), Keyring(revealed(settings.trusted_keys))
    opened = (open_layer(place, trust, keyring) for place in layer_places(settings))
    return [layer for layer in opened if isinstance(layer, Store)]


def open_named(args: argparse.Namespace) -> dict[str, Store]:
    """Return the published names, sorted, and where each is found first: in the store, or in a layer that settings
    name.
    """
    from nbcache.published import load

    store = open_store(args)
    stores = [store, *load.layers(store, settings_of(args).layers)]
    found = {name: store for store in reversed(stores) for name in store.names.known()}
    return dict(sorted(found.items()))


@contextmanager
def away_from_strangers(trust: Trust) -> Iterator[str | None]:
    """Be in ``/`` meanwhile, if others can lay out files in the current directory; yield what is wrong with that.

    Python may look for modules there, and Numba reads settings there (``.numba_config.yaml``): where to write, say.
    """
    try:
        here = os.getcwd()
        problem = Paths(trust).problem(here)
    except OSError as error:
        problem = f"can't be examined: {error.strerror or error}"
    if problem is None:
        yield None
        return
    before = -1
    with suppress(OSError):
        # Not by its name: somebody else may give that to another one meanwhile.
        before = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    os.chdir("/")
    try:
        yield problem
    finally:
        if before >= 0:
            with suppress(OSError):
                os.fchdir(before)
            os.close(before)


def open_store(args: argparse.Namespace, *, write: bool = False, looking: bool = False) -> Store:
    """Open a store that exists, for reading or to change it; raise CommandError with the reason if that can't be.

    Reading changes nothing, not even the directory's layout. Root may have a look at anybody's: what is only *looking*
    executes nothing of it.
    """
    settings = settings_of(args)
    directory = directory_of(settings)
    if not os.path.lexists(directory) or (
        os.path.isdir(directory) and not os.path.isdir(os.path.join(directory, layout.OBJECTS))
    ):
        raise CommandError(f"no cache in {directory} yet: run a program with NBCACHE_DIR={directory}")
    if looking and os.geteuid() == 0:
        owner = os.stat(directory).st_uid
        settings = settings._replace(trusted_uids=settings.trusted_uids | {owner})
    if write and settings.readonly:
        raise CommandError(f"{directory}: NBCACHE_READONLY is set")
    store = opened(settings if write else settings._replace(readonly=True))
    if write and not store.writable:
        raise CommandError(f"{directory}: no permission to write")
    return store
