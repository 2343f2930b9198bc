"""The load generator: how long a new query takes to its first answer, and how many known ones are answered in a
second.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from typing import Any, Final, NamedTuple

import serving

REVENUE: Final = "price * (1 - discount) if quantity < 24 and day >= 365 else 0"


class Figures(NamedTuple):
    """What was measured."""

    first_answers: list[float]
    """For each new query, from asking to the answer [s]."""
    answered: int
    """How many known queries were answered."""
    seconds: float
    """In what time [s]."""
    sums: dict[str, float]
    """The answers, by expression."""

    @property
    def first_answer(self) -> float:
        """The median of the new queries [s]."""
        return statistics.median(self.first_answers)

    @property
    def rate(self) -> float:
        """Known queries a second."""
        return self.answered / self.seconds


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


def drive(port: int, new: int, clients: int, seconds: float) -> Figures:
    """Ask ``new`` new queries one after the other; then known ones from ``clients`` threads, for so many seconds."""
    client = serving.Client(port)
    first_answers, sums = [], {}
    asked = expressions(new)
    for expression in asked:
        begun = time.perf_counter()
        sums[expression] = client.ask("/query", expression=expression)["sum"]
        first_answers.append(time.perf_counter() - begun)
    answered = [0] * clients
    begun = time.perf_counter()

    def run(number: int) -> None:
        mine: Any = serving.Client(port)
        while time.perf_counter() - begun < seconds:
            expression = asked[(answered[number] + number) % len(asked)]
            if mine.ask("/query", expression=expression)["sum"] != sums[expression]:
                raise AssertionError(f"{expression}: not the same answer twice")
            answered[number] += 1

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Figures(first_answers, sum(answered), time.perf_counter() - begun, sums)
