"""What the programs print with: type and exact value, so that nothing that differs looks alike."""

import numpy as np


def describe(value):
    if isinstance(value, np.ndarray):
        order = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        return f"array {value.dtype} {value.shape} {order} {value.tolist()!r}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} ({', '.join(map(describe, value))})"
    return f"{type(value).__name__} {value!r}"


def show(label, value):
    """Print a value with its type."""
    print(f"{label}: {describe(value)}", flush=True)


def raised(label, function, *args, **kwargs):
    """Call a function that raises, and print what."""
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        print(f"{label}: raised {type(error).__name__} {error.args!r}", flush=True)
    else:
        print(f"{label}: no exception but {describe(result)}", flush=True)
