"""Finite fields: ufuncs and functions that are built for each field, with its constants as globals."""

import galois
import numpy as np
from _digest import show

rng = np.random.default_rng(0)
for order in (31, 2**8, 3**5):
    field = galois.GF(order)
    x, y = field.Random((2, 60), low=1, seed=int(rng.integers(1000)))
    show(f"{order} arithmetic", [x + y, x * y, x / y, x**3, np.log(x)])
    matrix = field.Random((6, 6), seed=2)
    show(f"{order} product", matrix @ matrix)
    show(f"{order} rank", np.linalg.matrix_rank(matrix))
calculated = galois.GF(2**20, compile="jit-calculate")
z = calculated.Random(40, low=1, seed=3)
show("calculated", [z * z, np.reciprocal(z), z**1000])
poly = galois.Poly([3, 0, 2, 1], field=galois.GF(31))
show("evaluated", poly(galois.GF(31).Range(0, 31)))
code = galois.ReedSolomon(15, 9)
word = code.encode(code.field.Random(9, seed=4))
word[2] += code.field(7)
show("decoded", code.decode(word))
show("powers", galois.GF(2).Random((4, 4), seed=5) ** 2)
