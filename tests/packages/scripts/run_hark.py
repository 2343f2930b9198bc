"""Consumption and saving: a solved model, its steady state and the tools underneath."""

import numpy as np
from _digest import show
from HARK import mat_methods, numba_tools
from HARK.ConsumptionSaving.ConsIndShockModel import IndShockConsumerType
from HARK.ConsumptionSaving.ConsIndShockModelFast import IndShockConsumerTypeFast
from HARK.econforgeinterp import DecayInterp, LinearFast

grid = np.linspace(0.5, 20.0, 40)
show("utility", [numba_tools.CRRAutility(grid, 2.0), numba_tools.CRRAutilityP(grid, 2.0)])
for kind in (IndShockConsumerType, IndShockConsumerTypeFast):
    agent = kind(cycles=3)
    agent.solve()
    show(kind.__name__, [agent.solution[0].cFunc(grid), agent.solution[0].vPfunc(grid)])
flat = LinearFast(np.add.outer(grid, grid**0.5), [grid, grid])
show("linear", flat(np.linspace(1, 19, 30), np.linspace(2, 18, 30)))
line = LinearFast(np.sqrt(grid), [grid])
decayed = DecayInterp(line, LinearFast(grid, [grid]))
show("decay", decayed(np.linspace(1, 40, 25)))
points = np.column_stack([np.linspace(0.6, 19.0, 12), np.linspace(1.0, 15.0, 12)])
show("mass", mat_methods.mass_to_grid(points, np.full(12, 1 / 12), (grid, grid)))
