"""Markov chains, games, optimisation and quadrature."""

import numpy as np
import quantecon as qe
from _digest import show

show("tauchen", qe.tauchen(9, 0.9, 0.1).P)
show("simulate", qe.MarkovChain(np.array([[0.9, 0.1], [0.4, 0.6]])).simulate(50, init=0, random_state=1))
show("stationary", qe.tauchen(9, 0.9, 0.1).stationary_distributions)
reward, transition = np.array([[5.0, 10.0], [-1.0, -np.inf]]), np.array([[(0.5, 0.5), (0, 1)], [(0, 1), (0.5, 0.5)]])
solved = qe.markov.DiscreteDP(reward, transition, 0.95).solve()
show("ddp", solved.v)
show("gini", qe.gini_coefficient(np.arange(1.0, 50.0) ** 2))
show("lorenz", qe.lorenz_curve(np.arange(1.0, 50.0)))
show(
    "linprog",
    qe.optimize.linprog_simplex(np.array([4.0, 3.0]), np.array([[1.0, 1.0], [2.0, 1.0]]), np.array([10.0, 16.0])).x,
)
