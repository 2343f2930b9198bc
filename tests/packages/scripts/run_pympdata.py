"""Advection: kernels that are built around options, boundary conditions and grids, with a clock of C called through ctypes."""

import numpy as np
from _digest import show
from PyMPDATA import Options, ScalarField, Solver, Stepper, VectorField
from PyMPDATA.boundary_conditions import Constant, Periodic


def advected(options, condition, steps=20):
    x = np.linspace(0, 1, 24)
    advectee = ScalarField(data=np.exp(-((x - 0.4) ** 2) / 0.01), halo=options.n_halo, boundary_conditions=(condition,))
    advector = VectorField(data=(np.full(25, 0.4),), halo=options.n_halo, boundary_conditions=(condition,))
    solver = Solver(
        stepper=Stepper(options=options, n_dims=1, non_unit_g_factor=False), advectee=advectee, advector=advector
    )
    solver.advance(n_steps=steps)
    return solver.advectee.get()


show("two passes", advected(Options(n_iters=2), Periodic()))
show("nonoscillatory", advected(Options(n_iters=2, nonoscillatory=True, infinite_gauge=True), Periodic()))
show("constant", advected(Options(n_iters=1), Constant(value=0.0)))
