"""py-pde: functions made for each grid and its boundaries, of which Numba inlines what is registered by `register_jitable`."""

import pde
from _digest import show

grid = pde.UnitGrid([16, 16], periodic=[True, False])
state = pde.ScalarField.from_expression(grid, "sin(x) * y")
diffusion = pde.DiffusionPDE(0.1, bc={"x": "periodic", "y": {"value": 0}})
show("diffusion", diffusion.solve(state, t_range=1, dt=0.1, backend="numba", tracker=None).data)
