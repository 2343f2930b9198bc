"""What workers run: plain functions over JSON, so that any executor can carry them.

Each is for a process of its own that has the hook switched on over the store, and changes that process.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

import nbcache
from nbcache.daemon import failures, job_side
from nbcache.protocol import requests

UNPUBLISHED: Final = "it was compiled and could not be published"
"""The reason when it is the store's fault: a disk that is full, say."""
TRIED: Final = "it was called and came back"
"""What is returned in the place of None if that is so."""


def get_ready() -> None:
    """Do nothing: whoever can run that has imported Numba."""


def build(line: str, insist: bool = True, tried: bool = False) -> list[str] | str | None:
    """Compile what a request (one line) asks for into the store; return None if it is there now.

    Else what is to blame (:mod:`nbcache.daemon.failures`), and why not.

    Without *insist*, whatever it is by now: from a newer source, under another toolchain. What is to be *tried* is
    called first, where arguments can be made up, and not handed in if its process dies of that; a kernel can't be.
    """
    from nbcache.glue import other_processors
    from nbcache.glue.requests import carrying_out

    done = None
    other_processors.forbid_calls()
    store, trust = job_side.store, job_side.store.trust
    try:
        request = requests.read(line.encode())
        if request.is_for_gpu:
            key = _kernels().carry_out(request, trust, store.holds, insist=insist)
            return None if key is None or store.holds(key) else _why_not()
        if request.cc:
            _kernels().become_device(request.cc)
        if tried:
            job_side.hold_back()
        key = carrying_out.carry_out(request, trust, store.holds, insist=insist, maker=job_side.maker)
        if tried:
            from nbcache.glue import canary

            died = canary.crash(request)
            if died:
                return [failures.FUNCTION, f"built again, it crashed as well ({died}), called with made-up arguments"]
            done = None if died is None else TRIED
            job_side.hand_in()
    except carrying_out.EnvironmentRefusedError as error:
        return [failures.of(error, failures.ENVIRONMENT), str(error)]
    except (carrying_out.RefusedError, requests.BadRequestError) as error:
        return [failures.of(error), str(error)]
    return done if key is None or store.holds(key) else _why_not()


def build_profile(line: str, told: str, seconds: float) -> dict[str, Any]:
    """Compile what a profile lists and nobody has begun, for so long [s]; return how much was ``built``, how much
    is ``left`` to the program, and whether there is ``more``; or a ``problem``.

    Each key is claimed before anything is compiled under it.
    """
    from nbcache.glue import other_processors
    from nbcache.glue.requests import carrying_out, profile_lane
    from nbcache.protocol import profiles

    other_processors.forbid_calls()
    try:
        request = requests.read(line.encode())
        listed = profiles.parsed(told.encode())
        package = str(request.types["package"])
        profile = listed.of_package(package) if package else listed
        if request.cc:
            _kernels().become_device(request.cc)
        job_side.begin_to_claim()
        if job_side.share is not None:
            job_side.share(profile)
        lane = profile_lane.Lane(request, profile, job_side.store, job_side.maker)
        more = lane.run(seconds, job_side.may_go_on)
    except (carrying_out.RefusedError, ValueError) as error:
        return {"problem": str(error)}
    return {"built": lane.built, "left": lane.left, "more": more and not job_side.was_refused()}


def import_module(name: str, path: list[str], cc: str) -> str | None:
    """Import a module, and so compile everything in it that has a signature of its own; return why not.

    With a compute capability *cc*, that is what its kernels are compiled for.
    """
    from nbcache.glue import other_processors
    from nbcache.glue.requests import carrying_out

    other_processors.forbid_calls()
    try:
        if cc:
            _kernels().import_trusted(name, cc, path, job_side.store.trust)
        else:
            carrying_out.import_trusted(name, path, job_side.store.trust)
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
        return [failures.FUNCTION, f"it can't be cached: {'; '.join(reasons)}"]
    # A store that couldn't take it may take it the next time.
    return [failures.RESOURCES, UNPUBLISHED]
