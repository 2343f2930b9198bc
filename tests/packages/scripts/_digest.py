"""Printing results so that equal means bit for bit equal."""

import hashlib

import numpy as np


def show(name, value):
    """Print the type, shape and digest of an array, or of a sequence of them."""
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            show(f"{name}[{index}]", item)
        return
    array = np.ascontiguousarray(value)
    if array.dtype == object:
        array = np.array([repr(item) for item in array.ravel()])
    digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
    print(name, array.dtype, array.shape, digest, flush=True)
