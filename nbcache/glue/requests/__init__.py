"""Functions as requests: written down by a client, found again and compiled by a worker."""
