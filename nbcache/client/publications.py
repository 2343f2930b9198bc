"""Publishing at an accumulator: compile, describe, prove in a process without Numba, and only then give it the name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbcache import process, setting_syntax
from nbcache.client.logs import log
from nbcache.errors import PublicationError
from nbcache.protocol import manifests
from nbcache.store import fetching, layout
from nbcache.store.publication import failing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from nbcache.client.session import ClientSession
    from nbcache.glue.publishing.manifest_of import Described
    from nbcache.published.proof import Proof
    from nbcache.published.realize import WithNumba
    from nbcache.store.directory import Store
    from nbcache.store.entry import Entry
    from nbcache.store.publication import Publication


def publish(
    name: str,
    functions: Any,
    signatures: Any,
    *,
    numba: WithNumba,
    libraries: Collection[str] = (),
    expires: float | None = None,
    cpu: str | Iterable[str] = (),
) -> Publication:
    """Publish a compiled function, or several as a namespace; see :func:`nbcache.publish`."""
    from nbcache.client import hook
    from nbcache.published import names_in_tiers

    layout.check_name(name)
    if expires is not None and not (
        isinstance(expires, int | float)
        and not isinstance(expires, bool)
        and 0 < expires < setting_syntax.LONGEST_SECONDS
    ):
        raise PublicationError(name, f"expires={expires!r:.40} is no number of seconds above 0: leave it out for ever")
    store, manifest, described = _proved(
        name, _by_attribute(name, functions), signatures, numba=numba, libraries=libraries, durable=True,
        cpus=_processors(name, cpu),
    )  # fmt: skip
    until = None if expires is None else float(expires)
    found = store.names.write(name, manifest, sorted(described.entries), sorted(described.files), until)
    names_in_tiers.publish(name, hook.settings())
    return found


def dumps(
    functions: Any,
    signatures: Any,
    *,
    libraries: Collection[str] = (),
    wanted: Collection[str] | None = None,
) -> bytes:
    """Return a compiled function, or several as a namespace, as bytes; see :func:`nbcache.dumps`."""
    from nbcache.client import hook
    from nbcache.published import as_bytes, load

    by_attribute = _by_attribute("bytes", functions)
    name = ", ".join(getattr(each, "__name__", type(each).__name__) for each in by_attribute.values())
    key = as_bytes.signing_key(hook.settings())
    store, raw, _ = _proved(name, by_attribute, signatures, numba="forbid", libraries=libraries, durable=False)
    return load.stored(raw, manifests.decode(raw), store).blob(key, wanted)


def _proved(
    name: str,
    by_attribute: Mapping[str, Any],
    signatures: Any,
    *,
    numba: WithNumba,
    libraries: Collection[str],
    durable: bool,
    cpus: Sequence[str] = (),
) -> tuple[Store, bytes, Described]:
    """Compile, describe and prove; return the manifest, and the store in which all is that it refers to.

    What is ``durable`` has its files on the disk.
    """
    from nbcache.published import proof

    # It begins before all else here, waking the cache included: it takes as long as compiling a small function.
    with proof.prepared() as prover:
        session = _session(name)
        store: Store = session.store
        # In a process with Numba, each full collection amid this takes as long as importing half of it.
        with process.nothing_collected():
            from nbcache.glue.publishing import manifest_of
            from nbcache.glue.requests import requested

        chosen = requested.listed(signatures)
        for library in libraries:
            _load(name, library)
        for function in by_attribute.values():
            for signature in chosen or ():
                requested.prepare(function, signature)
        with process.collected_seldom():
            described = manifest_of.describe(
                name, by_attribute, chosen, _Entries(name, session), keep_refused=numba == "allow", cpus=cpus
            )
        store.names.renew(described.entries)
        unwritten = f"its files can't be written to {store.path}"
        with failing(name, unwritten):
            for digest, data in described.files.items():
                store.names.files.add(data, digest, durable=False)
        # Who stops trusting one of these keys runs none of what has their code inside.
        manifest = manifests.encode(described.manifest._replace(beside=tuple(sorted(session.lookup.beside))))

        def flush() -> None:
            with failing(name, unwritten):
                store.names.files.flush(described.files if durable else ())

        # Both wait for others: a process, and the disk.
        _take(name, prover.prove(manifest, store, meanwhile=flush))
    return store, manifest, described


def _processors(name: str, cpu: str | Iterable[str]) -> tuple[str, ...]:
    """Return the processors that a user names. Raises PublicationError."""
    from nbcache import processors

    wanted = [cpu] if isinstance(cpu, str) else list(cpu)
    try:
        found = tuple(dict.fromkeys(map(processors.named, wanted)))
    except (ValueError, AttributeError) as error:
        found, wanted = ("",), [str(error)]
    if not all(each in processors.here() for each in found):
        known = ", ".join(processors.here())
        raise PublicationError(name, f"no code can be built here for cpu={', '.join(wanted):.80}; known are {known}")
    return found


def _load(name: str, library: str) -> None:
    from nbcache.glue.publishing import natives
    from nbcache.glue.publishing.refusals import Refused

    try:
        natives.load(library)
    except Refused as exc:
        raise PublicationError(name, str(exc)) from exc


def _take(name: str, found: Proof) -> None:
    """Go on with what was proved. Raises PublicationError for what was found wanting."""
    if found.problem is not None:
        raise PublicationError(name, f"it does not run without Numba: {found.problem}")
    if found.doubtful is not None:
        log.warning("%s was published, but a call with made-up arguments did not come back: %s", name, found.doubtful)


def _by_attribute(name: str, functions: Any) -> Mapping[str, Any]:
    if not isinstance(functions, dict):
        return {"": functions}
    for attribute in functions:
        if not isinstance(attribute, str) or not attribute.isidentifier():
            raise PublicationError(name, f"{attribute!r} can't be the name of an attribute")
    if not functions:
        raise PublicationError(name, "there is nothing to publish: the mapping is empty")
    return functions


class _Entries:
    """The entries that this process may use, all of them in its store: what is found in a layer is put there."""

    def __init__(self, name: str, session: ClientSession) -> None:
        self._name = name
        self._session = session

    def find(self, key: str) -> Iterator[Entry]:
        """Yield each entry of a key. Raises PublicationError if one can't be put into the store."""
        self._session.saving.store_checked(key)
        for entry in self._session.entries(key):
            if entry.layer:
                fetching.put(self._session.store, self._name, entry)
            yield entry


def _session(name: str) -> ClientSession:
    """The session of this process, switched on if it isn't. Raises PublicationError unless it may write its store."""
    from nbcache.client import activation, hook

    hook.arm()
    session = activation.session()
    if session is None:
        raise PublicationError(
            name, "nbcache is off in this process: set NBCACHE_DIR, or call nbcache.enable(directory) first"
        )
    if not session.store.writable:
        raise PublicationError(name, f"{session.store.path} is read-only for this process")
    return session
