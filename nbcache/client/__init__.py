"""The client: how a process that uses Numba comes to use the store."""
