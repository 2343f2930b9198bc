"""What the random, fleet, benchmark and package suites share: child processes and usage records."""
