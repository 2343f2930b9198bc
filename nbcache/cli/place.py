"""Which store a command works on: ``--dir``, else the settings, else ~/.cache/nbcache if that is there.

The last is where ``nbcache run`` puts a store when nobody says otherwise, so that ``run`` and then ``stats`` just work.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from nbcache import config
from nbcache.cli.text import CommandError, UsageError
from nbcache.store.directory import Refusal, Store

if TYPE_CHECKING:
    import argparse

    from nbcache.config import Settings

DEFAULT = "~/.cache/nbcache"


def settings_of(args: argparse.Namespace) -> Settings:
    """Return the settings as `args` changes them. `dir` is absolute, or None when nobody named one."""
    settings = config.load()
    sources = dict(settings.sources)
    directory = settings.dir
    if args.dir is not None:
        if not args.dir:
            raise UsageError("--dir: an empty name")
        directory, sources["dir"] = args.dir, "--dir"
    elif directory is None and os.path.isdir(os.path.expanduser(DEFAULT)):
        directory, sources["dir"] = os.path.expanduser(DEFAULT), f"found at {DEFAULT}"
    return replace(settings, dir=directory and os.path.abspath(directory), sources=sources)


def directory_of(settings: Settings) -> str:
    """Return the store's directory, which exists; otherwise raise CommandError that says what to do."""
    if settings.dir is None:
        raise CommandError("no cache directory: set NBCACHE_DIR, or pass --dir DIR")
    if not os.path.lexists(settings.dir):
        raise CommandError(f"no cache at {settings.dir} yet: run a program with NBCACHE_DIR={settings.dir}")
    return settings.dir


def open_store(args: argparse.Namespace, *, write: bool = False) -> Store:
    """Open the store for reading, or for changing it; raise CommandError with the reason if that can't be."""
    settings = settings_of(args)
    directory = directory_of(settings)
    if write and settings.readonly:
        raise CommandError(f"{directory} is read-only by NBCACHE_READONLY ({settings.sources.get('readonly', 'set')})")
    store = Store.open(settings if write else replace(settings, readonly=True))
    if isinstance(store, Refusal):
        raise CommandError(store.reason)
    if write and not store.writable:
        raise CommandError(f"{directory} is not writable for this user")
    return store
