"""The service that compiles for others: spool, workers, and what it keeps for itself on local disk."""
