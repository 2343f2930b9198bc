"""The node's side of published functions: running them without Numba.

Nothing here imports Numba or llvmlite, nor has anybody else import them. See docs/decisions/014-published.md.
"""
