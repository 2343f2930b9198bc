"""The load generator: how long a new query takes to its first answer, and how many known ones are answered in a
second.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Final

import serving

REVENUE: Final = "price * (1 - discount) if quantity < 24 and day >= 365 else 0"


def expressions(count: int) -> list[str]:
    """Return so many queries, each of a form of its own: what is compiled for one is of no use to another."""
    rng = random.Random(20_26)
    made = [REVENUE]
    while len(made) < count:
        charge = rng.choice(["price * (1 - discount)", "price * (1 - discount) * (1 + tax)", "price * tax", "quantity"])
        bound = rng.choice(["discount >= 0.05", "tax < 0.04", "sqrt(price) > 150", "price > 20000 or discount == 0"])
        made.append(
            f"{charge} if {bound} and {rng.randrange(2526)} <= day and quantity < {rng.randrange(2, 51)} else 0"
        )
    return made


def ask_new(port: int, asked: list[str]) -> tuple[list[float], dict[str, float]]:
    """Ask new queries, one after the other; return how long each took to its answer [s], and the answers."""
    client = serving.Client(port)
    took, sums = [], {}
    for expression in asked:
        begun = time.perf_counter()
        sums[expression] = client.ask("/query", expression=expression)["sum"]
        took.append(time.perf_counter() - begun)
    return took, sums


def ask_known(port: int, sums: dict[str, float], clients: int, seconds: float) -> float:
    """Ask these queries again, from so many threads and for so long; return how many were answered in a second.

    An answer that isn't the one of before raises RuntimeError.
    """
    asked = list(sums)
    answered, wrong = [0] * clients, []
    begun = time.perf_counter()

    def run(number: int) -> None:
        client = serving.Client(port)
        # One answer each at least, however slow the machine: no answers at all have no rate.
        while not answered[number] or time.perf_counter() - begun < seconds:
            expression = asked[(answered[number] + number) % len(asked)]
            if client.ask("/query", expression=expression)["sum"] != sums[expression]:
                wrong.append(expression)
                return
            answered[number] += 1

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise RuntimeError(f"{wrong[0]}: not the same answer twice")
    return sum(answered) / (time.perf_counter() - begun)
