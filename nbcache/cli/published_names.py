"""``nbcache publish``, ``names``, ``unpublish`` and ``fetch``: functions published by name, taken back, copied
elsewhere.
"""

from __future__ import annotations

import fnmatch
import importlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import nbcache
from nbcache import importing
from nbcache.cli.store_option import away_from_strangers, directory_of, open_named, open_store, opened, settings_of
from nbcache.cli.text import CommandError, UsageError, age, duration, print_json, print_table, seconds, size
from nbcache.errors import NbcacheError, NotPublishedError, PublicationError
from nbcache.file_trust import Trust
from nbcache.one_line import first_line
from nbcache.protocol import manifests

if TYPE_CHECKING:
    import argparse

    from nbcache.store.directory import Store
    from nbcache.store.publication import Publication


_PATTERN = frozenset("*?[")


def publish(args: argparse.Namespace) -> int:
    """Publish a function that a module has."""
    settings = settings_of(args)
    args.dir = directory_of(settings)
    trust = Trust(settings.trusted_uids)
    with away_from_strangers(trust) as problem:
        nbcache.enable(args.dir)
        function = _imported(args.function, trust, problem)
        try:
            expires = None if args.expires is None else seconds(args.expires)
            cpus = args.cpu.split(",") if args.cpu else ()
            nbcache.publish(args.name, function, args.signature or None, numba=args.numba, expires=expires, cpu=cpus)
        except NbcacheError:
            raise
        except Exception as error:  # what Numba raises for what it can't compile is of any kind
            raise CommandError(
                f"{args.function} can't be compiled: {type(error).__name__}: {first_line(error)}"
            ) from error
        found = open_store(args).names.read(args.name)
    print(f"{args.name}, version {found.version}: published in {args.dir}")
    return 0


def _imported(where: str, trust: Trust, problem: str | None) -> Any:
    """Return what is there. Modules are looked for in the current directory first, if there is no problem with it."""
    module, colon, path = where.partition(":")
    if not (module and colon and path):
        raise UsageError(f"not MODULE:FUNCTION: {where!r}")
    here = os.getcwd()
    if problem is None and here not in sys.path:  # the command's own directory is there instead
        sys.path.insert(0, here)
        # Of what lies here. Whose packages were installed elsewhere, Python itself doesn't ask either.
        importing.guard(trust, only=here)
    try:
        found: Any = importlib.import_module(module)
        for attribute in path.split("."):
            found = getattr(found, attribute)
    except Exception as error:  # the module's own code may raise anything
        reason = f"{where} can't be imported: {type(error).__name__}: {first_line(error)}"
        if problem is not None:
            reason += f" (modules here aren't looked for: the current directory {problem})"
        raise CommandError(reason) from error
    return found


def list_names(args: argparse.Namespace) -> int:
    """Print a line for each name; the status is 1 when one of them can't be used."""
    stores = {name: store for name, store in open_named(args).items() if args.text in name}
    found: dict[str, Publication | str] = {}
    for name, store in stores.items():
        try:
            found[name] = store.names.read(name)
        except PublicationError as error:
            found[name] = error.reason
    if args.json:
        print_json([_as_json(stores[name], name, one) for name, one in found.items()])
    else:
        rows = [_cells(stores[name], name, one) for name, one in found.items()]
        print_table(rows, ("NAME", "VERSION", "AGE", "ENTRIES", "FILES", ""), right=" >>>>")
    return 1 if any(isinstance(one, str) for one in found.values()) else 0


def unpublish(args: argparse.Namespace) -> int:
    """Take back each name, or all that fit a pattern."""
    from nbcache.published import names_in_tiers

    store, settings = open_store(args, write=True), settings_of(args)
    oldest = time.time() - (0.0 if args.older_than is None else seconds(args.older_than))
    for pattern in args.name:
        fitting = [pattern]
        if _PATTERN & set(pattern):
            fitting = [name for name in store.names.known() if fnmatch.fnmatchcase(name, pattern)]
        for name in fitting:
            if args.older_than is None or _is_older(store, name, oldest):
                store.names.remove(name, remember=bool(settings.remote))
                names_in_tiers.publish(name, settings)
                print(f"{name} is not published any more")
    return 0


def _is_older(store: Store, name: str, limit: float) -> bool:
    """Whether a name was published before that; what can't be read stays, with a line that says so."""
    try:
        return store.names.read(name).created <= limit
    except NotPublishedError:
        raise
    except PublicationError as error:
        print(f"{error}; it stays: nobody knows how old it is", file=sys.stderr)
        return False


def fetch(args: argparse.Namespace) -> int:
    """Copy each name."""
    from nbcache.store import fetching

    store, named = open_store(args), open_named(args)
    path = os.path.abspath(os.path.expanduser(args.to))
    sources = {store.path, *(source.path for source in named.values())}
    if not args.to or os.path.realpath(path) in sources:
        raise UsageError(f"--to: not another store than {' and '.join(sorted(sources))}: {args.to!r}")
    target = opened(settings_of(args)._replace(dir=path, readonly=False))
    for name in args.name:
        done = fetching.fetch(named.get(name, store), target, name)
        print(f"{name}, version {done.publication.version}: {size(done.size)} are in {target.path}")
    return 0


def export(args: argparse.Namespace) -> int:
    """Make what is asked for and print its path."""
    store = open_named(args).get(args.name, open_store(args))
    if args.wheel is None and args.stubs is None and args.header is None:
        raise UsageError(
            "export what? --wheel DIR makes a wheel, --stubs FILE is for type checkers, --header FILE for C"
        )
    if args.wheel is not None:
        from nbcache import wheels

        print(wheels.export(store, args.name, args.wheel, package=args.package, requires=args.requires))
    found = store.names.read(args.name)
    manifest = manifests.decode(found.manifest)._replace(name=args.name)
    if args.stubs is not None:
        from nbcache.published import introspection

        _write(args.stubs, introspection.stubs(manifest).encode())
    if args.header is not None:
        from nbcache.published import header

        _write(args.header, header.header(manifest, f"{args.name}, version {found.version}").encode())
        assert manifest.image is not None, "there is a header"
        _write(f"{os.path.splitext(args.header)[0]}.so", store.names.files.read(manifest.image.digest, args.name))
    return 0


def _write(path: str, data: bytes) -> None:
    from nbcache.store import atomic

    atomic.replace_named(os.path.abspath(path), data)
    print(os.path.abspath(path))


def _cells(store: Store, name: str, found: Publication | str) -> tuple[object, ...]:
    if isinstance(found, str):
        return name, "?", "?", "?", "?", found
    remarks = [f"in the layer {store.layer}"] if store.layer else []
    if found.expires is not None:
        left = found.expires - time.time()
        remarks.append("expired" if left <= 0 else f"expires in {duration(left)}")
    return name, found.version, age(found.created), len(found.entries), len(found.files), ", ".join(remarks)


def _as_json(store: Store, name: str, found: Publication | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"name": name, "problem": found}
    told = {each: getattr(found, each) for each in ("version", "created", "expires", "entries", "files", "digest")}
    return {"name": name, **told, "versions": store.names.versions(name), "layer": store.layer}
