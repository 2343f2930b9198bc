"""The store: bytes and paths, no idea of Numba. Works, and is tested, without a compiler."""
