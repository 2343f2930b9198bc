"""The metrics by name: what a look at a store, and what one daemon counted, are called for Prometheus.

Names and units are as Prometheus wants them (base units, ``_total`` for what only grows). Every label has few values:
``store`` is the directory, all others are enumerations. No name of a function, file or user is ever part of a metric.

What is of the **store** (``nbcache_*``) is the same whoever tells it: with several daemons, take the ``max`` and not
the ``sum``. What is of one **daemon** (``nbcache_daemon_*``) begins anew with its process.
"""

from __future__ import annotations

from itertools import accumulate
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

import nbcache
from nbcache.metrics.meter import Distribution, Reading
from nbcache.one_line import one_line
from nbcache.store import reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from nbcache.metrics.store_scan import Look
    from nbcache.store.usage import Record


def text(metrics: Iterable[Metric], accept: str = "") -> tuple[bytes, str]:
    """Return the metrics as text and its content type: OpenMetrics for who asks for it, else Prometheus' own format."""
    encode, content_type = choose_encoder(accept)
    made = list(metrics)
    # All that it asks of a registry.
    return encode(SimpleNamespace(collect=lambda: made)), content_type


def of_store(look: Look) -> Iterator[Metric]:
    """Yield what is known of a store; of one that can't be used, that it can't."""
    make = _Maker(look.root)
    yield make.info("nbcache_build", "What tells these metrics.", {"version": nbcache.__version__})
    yield make.gauge("nbcache_store_up", "Whether the store can be used: 1 or 0.", float(look.problem is None))
    yield make.gauge("nbcache_look_timestamp_seconds", "When the store was looked at.", look.taken)
    if look.problem is not None:
        return
    complete = float(look.complete)
    yield make.gauge("nbcache_usage_complete", "Whether all usage records could be read: 1 or 0.", complete)
    if look.sums is not None:
        yield from _of_programs(make, look.sums)
    gauges = (
        ("store_entries", "Entries, that is, compiled functions.", look.entries),
        ("store_size_bytes", "The size of all entries.", look.size),
        ("store_limit_bytes", "NBCACHE_MAX_SIZE, above which entries are evicted; 0 for no limit.", look.limit),
        ("store_free_bytes", "What the filesystem has left.", look.free),
        ("failures", "What daemons could not build lately, or would not.", look.failures),
        ("quarantined_entries", "Entries that are skipped because programs crashed in them.", look.quarantined),
        ("daemons", "Daemons that are alive.", look.daemons),
        ("workers", "How many jobs these run at once.", look.workers),
        ("busy_workers", "How many jobs they are running.", look.busy),
        ("queued_requests", "Requests that no worker has begun.", look.queued),
    )
    for name, meaning, value in gauges:
        yield make.gauge(f"nbcache_{name}", meaning, value)


def _of_programs(make: _Maker, sums: Record) -> Iterator[Metric]:
    """What programs did so far."""
    counters = (
        ("processes", "Programs that used the store.", sums["processes"]),
        ("hits", "Look-ups that loaded an entry.", sums["hit_count"]),
        ("uncacheable", "Functions that can't be cached.", reasons.uncacheable(sums)),
        ("builds", "Compilations.", sums["builds_count"]),
        ("build_seconds", "Time that compilations took.", sums["built_seconds"]),
        ("saved_seconds", "Time that compilations would have taken, had they not been hits.", sums["saved_seconds"]),
        ("published", "Entries put into the store.", sums["published"]),
        ("evicted", "Entries evicted because the store was too large.", sums["evicted"]),
        ("evicted_bytes", "The size of evicted entries.", sums["evicted_bytes"]),
    )
    for name, meaning, value in counters:
        yield make.counter(f"nbcache_{name}", meaning, value)
    for name, meaning, label, words in (
        ("misses", "Look-ups that found nothing to use, by reason.", "reason", reasons.MISSES),
        ("errors", "Faults that were turned into misses, by kind.", "kind", reasons.ERRORS),
        ("checks", "Hits that were checked (NBCACHE_CHECK), by what came of it.", "result", reasons.CHECK_RESULTS),
    ):
        yield make.counters(f"nbcache_{name}", meaning, label, {word: sums[name].get(word, 0) for word in words})
    counts = tuple(accumulate(sums["waits"].get(word, 0) for word in reasons.WAITS))
    waits = Distribution(tuple(map(float, reasons.WAITS[:-1])), counts, sums["waited_seconds"])
    yield make.distribution("nbcache_wait_seconds", "How long programs waited for what others build.", waits)
    vain = sums["waits"].get(reasons.IN_VAIN, 0)
    yield make.counter("nbcache_waits_in_vain", "How often what was waited for didn't come.", vain)


def of_daemon(root: str, reading: Reading) -> Iterator[Metric]:
    """Yield what one daemon counted of itself."""
    make = _Maker(root)
    started = reading.started
    yield make.gauge("nbcache_daemon_start_time_seconds", "When the daemon started, in seconds since 1970.", started)
    yield make.counters("nbcache_daemon_jobs", "Jobs that ended, by what became of them.", "outcome", reading.jobs)
    yield make.distribution("nbcache_daemon_job_seconds", "How long jobs took.", reading.job_seconds)
    yield make.distribution(
        "nbcache_daemon_request_wait_seconds", "How old requests were when they were answered.", reading.waits
    )
    yield make.gauge(
        "nbcache_daemon_longest_wait_seconds", "The age of the oldest request that waits.", reading.longest_wait
    )
    yield make.counter("nbcache_daemon_rejected_requests", "Requests that were refused.", reading.rejected)


class _Maker:
    """Makes metrics of one store."""

    def __init__(self, root: str) -> None:
        # A path may be of any bytes; a label is text on one line.
        self._store = one_line(root)

    def _one(self, family: Any, name: str, meaning: str, value: object) -> Metric:
        made: Metric = family(name, meaning, labels=["store"])
        made.add_metric([self._store], value)  # type: ignore[attr-defined]  # of the families that there are
        return made

    def gauge(self, name: str, meaning: str, value: float) -> Metric:
        return self._one(GaugeMetricFamily, name, meaning, value)

    def counter(self, name: str, meaning: str, value: float) -> Metric:
        return self._one(CounterMetricFamily, name, meaning, value)

    def info(self, name: str, meaning: str, values: dict[str, str]) -> Metric:
        return self._one(InfoMetricFamily, name, meaning, values)

    def counters(self, name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
        made = CounterMetricFamily(name, meaning, labels=["store", label])
        for word, value in values.items():
            made.add_metric([self._store, word], value)
        return made

    def distribution(self, name: str, meaning: str, observed: Distribution) -> Metric:
        bounds = [*map(floatToGoString, observed.bounds), "+Inf"]
        made = HistogramMetricFamily(name, meaning, labels=["store"])
        made.add_metric([self._store], list(zip(bounds, observed.counts, strict=True)), sum_value=observed.total)
        return made
