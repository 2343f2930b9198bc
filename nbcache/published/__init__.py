"""The node's side of published functions: running them without Numba.

Nothing here imports Numba or llvmlite, nor has anybody else import them. See ARCHITECTURE.md, "Published functions".
"""
