"""A shared compile cache for Numba.

Nothing here has to be imported: a process that starts with ``NBCACHE_DIR`` set uses the cache. The functions below
are for programs that would rather switch it on themselves. Importing this package imports nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing for it would cost every process milliseconds

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable
    from typing import Any, Literal

    from nbcache.config import Settings

__all__ = [
    "__version__", "about", "disable", "dumps", "enable", "exists", "load", "loads", "missing", "names", "prewarm",
    "publish", "stats", "unpublish",
]  # fmt: skip

__version__ = "0.3.0"


def enable(dir: str | os.PathLike[str], *, only_if_unset: bool = False) -> None:  # noqa: A002 - the setting's own name
    """Use the cache in directory `dir` from here on, whatever the environment says about where it is.

    The other settings are read as usual. Call it before the first compilation: what is compiled earlier is not
    cached. Never raises for a directory that can't be used: that is logged, and Numba works as without nbcache.

    With `only_if_unset`, a package proposes a place to programs that chose none. It counts for nothing if the
    environment names a directory or has no say (``python -I``, setuid), or after `enable` or `disable`. If a file of
    settings names a directory, that one is used.
    """
    import os

    from nbcache import config
    from nbcache.client import hook

    settings = config.load()
    if only_if_unset:
        if hook.is_decided(settings):
            return
        dir = settings.dir or dir  # noqa: A001
    sources = {**settings.sources, "dir": "nbcache.enable()"}
    hook.arm(settings._replace(dir=os.path.abspath(os.path.expanduser(os.fspath(dir))), sources=sources))


def disable() -> None:
    """Stop using the cache in this process: what is loaded stays, and later compilations are Numba's own."""
    from nbcache.client import hook

    hook.disarm()


def prewarm(dispatcher: Any, signatures: Any) -> None:
    """Have a function ready for each of `signatures`, as calling it with such arguments would.

    It is loaded if the cache has it, otherwise compiled and published. `dispatcher` is a jitted function or a ufunc; a
    signature is what Numba takes for one, and its return type is ignored, as a call has none. Raises what Numba raises
    for a signature that it can't compile.
    """
    from nbcache.glue.requests import requested

    for signature in requested.listed(signatures) or ():
        requested.prepare(dispatcher, signature)


def publish(
    name: str,
    function: Any,
    signatures: Any = None,
    *,
    numba: Literal["forbid", "allow"] = "forbid",
    libraries: Collection[str] = (),
    expires: float | None = None,
    cpu: str | Iterable[str] = (),
) -> None:
    """Publish a compiled function under a name, for processes that have no Numba: see `load`.

    `function` is what ``@njit``, ``@vectorize``, ``@guvectorize`` or ``@cfunc`` returned, or a dict of several, which
    becomes a namespace with these attributes. `signatures`, a list or a single one, are compiled if need be, and
    published; without, those that there are. What is published under the name already stays as an older version.

    With `expires` [s], it may be given up when that time is over: whoever evicts from the store then takes it back.

    `cpu` names the processors that it is for, such as ``["x86-64-v3", "x86-64-v4"]``: `load` takes the code of the best
    that the host can be. Without, it is for the processor that this process compiles for.

    C functions that it calls are bound at the node, in the same build of their library. `libraries` are loaded for
    those that code calls by name (``types.ExternalFunction``): names such as ``"libblend.so.2"``, or paths.

    Raises `nbcache.errors.NotPublishableError` for a function that can't run without Numba, with the reason; with
    ``numba="allow"`` it is published as that, for those who load it with the same word. Raises
    `nbcache.errors.PublicationError` for everything else that stands in the way, and what Numba raises for a signature
    that it can't compile.
    """
    from nbcache import process

    _check_word(numba)
    with process.nothing_collected():
        from nbcache.client import publications

    publications.publish(name, function, signatures, numba=numba, libraries=libraries, expires=expires, cpu=cpu)


def load(
    name: str, *, numba: Literal["forbid", "allow"] = "forbid", version: int | None = None, follow: bool = False
) -> Any:
    """Return the function published under a name, or the namespace of functions, without importing Numba.

    That is the newest version, or an older one that is still kept (`version`). With `follow`, what is returned always
    calls the newest version: within seconds of its publication, without a restart, and each call runs one version from
    its beginning to its end. A version that can't be used here is logged, and the one before stays. A name that is
    loaded again is the same object, until another version is published.

    Called with arguments of other types than it was published for, a function raises TypeError; what Numba's dispatcher
    would convert is converted. With ``numba="allow"``, a function that needs Numba, or whose code was built for another
    kind of host, is imported from its module and compiled by Numba, where that is installed.

    Raises `nbcache.errors.NotPublishedError` for a name that isn't there, and `nbcache.errors.PublicationError` for a
    publication that can't be used here, with the reason.
    """
    from nbcache import process

    _check_word(numba)
    with process.nothing_collected():
        from nbcache.published import load as loading

        return loading.load(name, _settings(), numba=numba, version=version, follow=follow)


def _check_word(numba: object) -> None:
    if numba not in ("forbid", "allow"):
        raise ValueError(f"numba={numba!r:.40} is neither 'forbid' nor 'allow'")


def dumps(
    function: Any,
    signatures: Any = None,
    *,
    libraries: Collection[str] = (),
    parts: Collection[str] | None = None,
) -> bytes:
    """Return a compiled function as bytes, for `loads` in a process without Numba, a store or a shared directory.

    `function`, `signatures` and `libraries` are as for `publish`; a function or namespace that `load` or `loads`
    returned can be given, too, also without Numba. The bytes are signed if ``NBCACHE_SIGNING_KEY`` is set. `parts` are
    the digests of the parts to include; without, all of them: ``parts=()`` makes a head, of which the other side's
    `missing` says what it needs.

    Raises what `publish` raises, and `nbcache.errors.RemoteError` if the bytes can't be signed.
    """
    from nbcache.published import as_bytes

    loaded = as_bytes.dumps(function, _settings(), parts) if signatures is None else None
    if loaded is not None:
        return loaded
    from nbcache.client import publications

    return publications.dumps(function, signatures, libraries=libraries, wanted=parts)


def loads(data: bytes, *, trusted: bool = False) -> Any:
    """Return the function, or the namespace of functions, that `dumps` wrote.

    That is the same object each time. **Loading bytes is executing them**: they have to be signed by a key in
    ``NBCACHE_TRUSTED_KEYS``, or the caller says ``trusted=True`` because he knows where they come from.

    Raises `nbcache.errors.PublicationError`, with the reason, for bytes that are not trusted, damaged, or for another
    kind of host.
    """
    from nbcache import process

    with process.nothing_collected():
        from nbcache.published import as_bytes

        # Who takes the bytes on the caller's word reads no settings.
        return as_bytes.loads(data, None if trusted is True else _settings(), trusted=trusted)


def missing(head: bytes) -> list[str]:
    """Return the digests of the parts that this process needs in order to load what `dumps` wrote, and doesn't have.

    What many functions share, such as Numba's runtime, so has to be sent once. Nothing is loaded, whoever wrote it.
    """
    from nbcache.published import as_bytes

    found: list[str] = as_bytes.missing(head)
    return found


def about(function: Any) -> Any:
    """Return what a loaded function is: `name`, `kind`, `signatures`, `targets`, `publication`, `module` and `doc`.

    Raises TypeError for what neither `load` nor `loads` returned.
    """
    from nbcache.published import introspection

    member = introspection.member_of(function)
    if member is None:
        raise TypeError(f"{type(function).__name__} is not what nbcache.load or nbcache.loads returned")
    return introspection.about(member)


def exists(name: str) -> bool:
    """Whether something is published under a name; what it costs doesn't depend on how many names there are."""
    from nbcache.published import load as loading

    found: bool = loading.exists(name, _settings())
    return found


def names() -> list[str]:
    """Return the names under which something is published, sorted."""
    from nbcache.published import load as loading

    found: list[str] = loading.known(_settings())
    return found


def unpublish(name: str) -> None:
    """Take back what is published under a name, all versions of it; whoever has loaded it keeps it.

    Raises `nbcache.errors.NotPublishedError`, or `nbcache.errors.PublicationError` where this process may not.
    """
    from nbcache.published import load as loading

    loading.unpublish(name, _settings())


def _settings() -> Settings:
    """The settings of this process."""
    import sys

    # What `enable` was told counts; a process that was told nothing needs no client.
    hook = sys.modules.get("nbcache.client.hook")
    if hook is None:
        from nbcache import config

        return config.load()
    found: Settings = hook.settings()
    return found


def stats() -> dict[str, Any]:
    """Return this process's counts: hits, misses and uncacheable functions by reason, errors, seconds saved [s]."""
    import sys

    # Where nothing ever switched it on, nothing was counted.
    activation = sys.modules.get("nbcache.client.activation")
    if activation is None:
        from nbcache.counting import Counters

        return Counters().snapshot()
    found: dict[str, Any] = activation.stats()
    return found
