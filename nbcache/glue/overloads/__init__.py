"""What the past of a process decides about a compilation, and what a hit owes it."""
