"""``nbcache ls`` and ``nbcache show``: what is in a store. Both only read, and only show: nothing is trusted or run."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from nbcache.cli.explain import components_of
from nbcache.cli.store_option import open_layers, open_named, open_store
from nbcache.cli.text import CommandError, UsageError, age, ago, duration, print_json, print_table, size
from nbcache.protocol import manifests
from nbcache.store import publication, usage

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from nbcache.store.directory import Store
    from nbcache.store.entry import Entry, Header
    from nbcache.store.listing import EntryInfo
    from nbcache.store.publication import Publication

SHORT = 12
"""Digits of a key that a listing shows: enough to tell a million entries apart."""
_OF_KERNELS = ("cc", "registers", "shared", "cubin")
"""What an entry for a GPU says besides: compute capability, registers of a thread, static shared memory of a block
[bytes], size of the cubin [bytes]."""
_NO_HEADER = "(damaged or of another version)"


def list_entries(args: argparse.Namespace) -> int:
    """Print a line for each entry."""
    store = open_store(args, looking=True)
    entries = list(store.scan())
    used = usage.last_use(usage.read(store.path), {info.key for info in entries}.__contains__)
    rows = []
    for info in entries:
        header = info.header
        if _matches(args.text, info, header):
            rows.append((max(info.mtime, used.get(info.key, 0.0)), info, header))
    rows.sort(key=lambda row: (row[0], row[1].path))
    if args.json:
        print_json([_as_json(info, header, last) for last, info, header in rows])
        return 0
    now = time.time()
    cells = [_cells(info, header, last, now) for last, info, header in rows]
    print_table(cells, ("KEY", "KIND", "CPU", "SIZE", "AGE", "USED", "FUNCTION", "SIGNATURE"), right="   >>>")
    return 0


def show_entry(args: argparse.Namespace) -> int:
    """Print everything known about each variant of one key; the status is 1 when one of them can't be used."""
    store = open_store(args, looking=True)
    named = open_named(args)
    if args.key in named:
        return _show_name(named[args.key], args.key, as_json=args.json)
    stores = [store, *open_layers(args)]
    key = find_key(stores, args.key)
    rejected: list[str] = []
    found = [entry for place in stores for entry in place.find(key, rejected.append)]
    if args.json:
        print_json({"key": key, "entries": [_details(entry) for entry in found], "rejected": rejected})
    else:
        print(f"key  {key}")
        for entry in found:
            print()
            _print_entry(entry)
        for reason in rejected:
            print(f"\n(a variant that is not used: {reason})")
    return 1 if rejected or not found else 0


def _show_name(store: Store, name: str, *, as_json: bool) -> int:
    """Print what is published under a name; the status is 1 when something of it isn't there."""
    found = store.names.read(name)
    missing = store.names.missing(found)
    versions = store.names.versions(name)
    if as_json:
        problem = None if missing is None else missing.reason
        parts = {**found._asdict(), "manifest": json.loads(found.manifest), "versions": versions, "problem": problem}
        print_json(parts)
        return 0 if missing is None else 1
    there = ", ".join(map(str, versions))
    _print_group(
        "",
        {
            "name": name,
            "version": f"{found.version} (there are: {there})",
            "age": age(found.created),
            "digest": found.digest,
            **_built_for(found),
        },
    )
    _print_group("functions", _signatures(found))
    _print_group("entries", {key[:SHORT]: _title(store, key) for key in found.entries})
    _print_group("files", {digest[:SHORT]: publication.path_of(store.path, digest) for digest in found.files})
    if missing is not None:
        print(f"\n({missing.reason})")
    return 0 if missing is None else 1


def _built_for(found: Publication) -> dict[str, str]:
    from nbcache.published import introspection

    manifest = manifests.decode(found.manifest)
    return {"built for": "; ".join(introspection.targets(manifest)), "by": f"Numba {manifest.numba}"}


def _signatures(found: Publication) -> dict[str, str]:
    from nbcache.published import introspection

    manifest = manifests.decode(found.manifest)
    rows = {}
    for attribute, function in manifest.functions.items():
        said = "; ".join(introspection.signatures(function)) or function.reason or ""
        rows[attribute or "(itself)"] = f"{function.what} {function.name}{introspection.parameters(function)}: {said}"
    return rows


def _title(store: Store, key: str) -> str:
    header = next((found.header for found in store.find(key)), None)
    return "(not there)" if header is None else f"{header.function} {header.signature}"


def find_key(stores: Iterable[Store], prefix: str) -> str:
    """Return the one key in these stores that begins with `prefix`.

    Raises UsageError or CommandError when there isn't exactly one.
    """
    prefix = prefix.lower()
    if not prefix or prefix.strip("0123456789abcdef"):
        raise UsageError(f"not the beginning of a key (hexadecimal digits): {prefix!r}")
    keys = sorted({info.key for store in stores for info in store.find_prefix(prefix)})
    if not keys:
        raise CommandError(f"no entry with a key that begins with {prefix}")
    if len(keys) > 1:
        raise CommandError(f"{len(keys)} keys begin with {prefix}: {', '.join(key[:SHORT] for key in keys[:4])}, ...")
    return keys[0]


def read_components(entry: Entry) -> dict[str, str]:
    """Return the labels and values that went into an entry's key; empty when it doesn't tell."""
    raw = entry.section("components")
    try:
        return components_of(json.loads(raw)) if raw else {}
    except (ValueError, RecursionError):
        return {}


def _matches(text: str, info: EntryInfo, header: Header | None) -> bool:
    if header is None:
        return info.key.startswith(text)
    return info.key.startswith(text) or any(text in part for part in (header.function, header.signature, header.kind))


def processor_of(header: Header) -> str:
    """Return the processor, or the compute capability, that an entry is for; "-" where it doesn't say."""
    cc = header.extra.get("cc")
    return f"cc {cc}" if isinstance(cc, str) else str(header.extra.get("cpu", "-"))


def signers_of(header: Header) -> str:
    """Return whose signatures an entry that came from elsewhere has."""
    return ", ".join(each.name for each in header.signed or ()) or "nobody, but it came from a remote cache"


def _cells(info: EntryInfo, header: Header | None, last: float, now: float) -> tuple[str, ...]:
    kind, function, signature = (header.kind, header.function, header.signature) if header else ("?", _NO_HEADER, "")
    return (
        info.key[:SHORT],
        kind,
        processor_of(header) if header else "?",
        size(info.size),
        age(header.created if header else info.mtime, now),
        age(last, now),
        function,
        signature,
    )


def _as_json(info: EntryInfo, header: Header | None, last: float) -> dict[str, Any]:
    row: dict[str, Any] = {"key": info.key, "slot": info.slot, "path": info.path, "size": info.size, "last_use": last}
    for name in ("kind", "function", "signature", "toolchain", "compile_seconds", "created"):
        row[name] = getattr(header, name, None)
    for name in ("cpu", *_OF_KERNELS):
        row[name] = header and header.extra.get(name)
    return row


def _details(entry: Entry) -> dict[str, Any]:
    header = entry.header
    names = ("kind", "function", "signature", "toolchain", "compile_seconds", "created", "build", "guard")
    return {
        "path": entry.path,
        "layer": entry.layer,
        **{name: getattr(header, name) for name in names},
        "extra": dict(header.extra),
        "signed": None if header.signed is None else [each.name for each in header.signed],
        "sections": entry.section_sizes,
        "components": read_components(entry),
    }


def _print_entry(entry: Entry) -> None:
    header = entry.header
    _print_group(
        "",
        {
            "function": header.function,
            "signature": header.signature,
            "kind": header.kind,
            "toolchain": header.toolchain,
            **({"layer": entry.layer} if entry.layer else {}),
            **({"signed by": signers_of(header)} if header.signed is not None else {}),
            "compiled in": duration(header.compile_seconds),
            "created": ago(header.created),
            "build": header.build,
            "guard": header.guard or "-",
            "file": entry.path,
            **{name: json.dumps(value) for name, value in header.extra.items()},
        },
    )
    _print_group("sections", {name: size(count) for name, count in entry.section_sizes.items()})
    _print_group("components", read_components(entry))


def _print_group(title: str, rows: Mapping[str, str]) -> None:
    if title and rows:
        print(f"{title}:")
    print_table([(f"  {name}" if title else name, value) for name, value in rows.items()])
