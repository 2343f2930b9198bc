"""The numba glue: the only importer of Numba's and llvmlite's internals."""
