"""What a store and its daemons do, as metrics for Prometheus.

Whatever imports ``prometheus_client`` is in here, and nothing that a client imports imports this: it is an extra
(``nbcache[metrics]``), and a program that only hits is not to pay for being watched.
"""
