"""One of each thing that clients and daemons write."""

import time

from nbcache.protocol.heartbeats import Heartbeat
from nbcache.protocol.requests import Request

BY_REFERENCE = Request(
    key="ab" * 32,
    kind="dispatcher",
    function="pkg.mod:outer.inner",
    signature="(int64, array(float64, 1d, C))",
    types={"version": 1, "args": ["int64", ["Array", "float64", 1, "C", False, True]], "returns": None},
    source="0" * 32,
    value=None,
    modules=("pkg.registers", "other"),
    path=("/a/b", "/c"),
    interpreter="/usr/bin/python3",
    settings={"NUMBA_OPT": "2"},
    toolchain="numba 0.68.1",
    components=(("global pkg.K", "3"), ("signature", "(int64)")),
    created=1.5,
    host="node1",
    pid=123,
)
SIGN = Heartbeat("one", "host", 12, 1.0, time.time(), workers=2, busy=1, queue=0, seconds=3.0, draining=False)
