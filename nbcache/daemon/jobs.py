"""What workers run: plain functions over JSON, so that any executor can carry them.

Each is for a process of its own that has the hook switched on over the store, and changes that process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import nbcache
from nbcache.daemon import blame, worker
from nbcache.protocol import requests

if TYPE_CHECKING:
    from types import ModuleType

UNPUBLISHED: Final = "it was compiled and could not be published"
"""The reason when it is the store's fault: a disk that is full, say."""
TRIED: Final = "it was called and came back"
"""What is returned in the place of None if that is so."""


def get_ready() -> None:
    """Do nothing: whoever can run that has imported Numba."""


def build(line: str, insist: bool = True, tried: bool = False) -> list[str] | str | None:
    """Compile what a request (one line) asks for into the store; return None if it is there now.

    Else what is to blame (:mod:`nbcache.daemon.blame`), and why not.

    Without *insist*, whatever it is by now: from a newer source, under another toolchain. What is to be *tried* is
    called first, where arguments can be made up, and not handed in if its process dies of that; a kernel can't be.
    """
    from nbcache.glue import foreign
    from nbcache.glue.requests import carrying_out

    done = None
    foreign.forbid_calls()
    store, trust = worker.store, worker.store.trust
    try:
        request = requests.read(line.encode())
        if request.is_for_gpu:
            key = _kernels().carry_out(request, trust, store.holds, insist=insist)
            return None if key is None or store.holds(key) else _why_not()
        if request.cc:
            _kernels().become_device(request.cc)
        if tried:
            worker.hold_back()
        key = carrying_out.carry_out(request, trust, store.holds, insist=insist, maker=worker.maker)
        if tried:
            from nbcache.glue import canary

            died = canary.crash(request)
            if died:
                return [blame.FUNCTION, f"built again, it crashed as well ({died}), called with made-up arguments"]
            done = None if died is None else TRIED
            worker.hand_in()
    except carrying_out.EnvironmentRefusedError as error:
        return [blame.of(error, blame.ENVIRONMENT), str(error)]
    except (carrying_out.RefusedError, requests.BadRequestError) as error:
        return [blame.of(error), str(error)]
    return done if key is None or store.holds(key) else _why_not()


def build_profile(line: str, told: str, seconds: float) -> dict[str, Any]:
    """Compile what a profile lists and nobody has begun, for so long [s]; return how much was ``built``, how much
    is ``left`` to the program, and whether there is ``more``; or a ``problem``.

    Each key is claimed before anything is compiled under it.
    """
    from nbcache.glue import foreign
    from nbcache.glue.requests import carrying_out, profiled
    from nbcache.protocol import profiles

    foreign.forbid_calls()
    try:
        request = requests.read(line.encode())
        listed = profiles.parsed(told.encode())
        package = str(request.types["package"])
        profile = listed.of_package(package) if package else listed
        if request.cc:
            _kernels().become_device(request.cc)
        worker.begin_to_claim()
        if worker.share is not None:
            worker.share(profile)
        lane = profiled.Lane(request, profile, worker.store, worker.maker)
        more = lane.run(seconds, worker.may_go_on)
    except (carrying_out.RefusedError, ValueError) as error:
        return {"problem": str(error)}
    return {"built": lane.built, "left": lane.left, "more": more and not worker.was_refused()}


def import_module(name: str, path: list[str], cc: str) -> str | None:
    """Import a module, and so compile everything in it that has a signature of its own; return why not.

    With a compute capability *cc*, that is what its kernels are compiled for.
    """
    from nbcache.glue import foreign
    from nbcache.glue.requests import carrying_out

    foreign.forbid_calls()
    try:
        if cc:
            _kernels().import_trusted(name, cc, path, worker.store.trust)
        else:
            carrying_out.import_trusted(name, path, worker.store.trust)
    except carrying_out.RefusedError as error:
        return str(error)
    return None


def _kernels() -> ModuleType:
    """What carries out requests for a GPU. Raises EnvironmentRefusedError where numba-cuda can't be used."""
    from nbcache.glue import warmth
    from nbcache.glue.requests import carrying_out

    problem = warmth.kernels_problem()
    if problem is not None:
        raise carrying_out.EnvironmentRefusedError(problem)
    from nbcache.glue.cuda import requested as kernels

    return kernels


def _why_not() -> list[str]:
    reasons = nbcache.stats()["uncacheable"]
    if reasons:
        return [blame.FUNCTION, f"it can't be cached: {'; '.join(reasons)}"]
    # A store that couldn't take it may take it the next time.
    return [blame.RESOURCES, UNPUBLISHED]
