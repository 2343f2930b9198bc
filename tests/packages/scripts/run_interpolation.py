"""Splines and multilinear interpolation: choosers that generate code for each grid and option."""

import numpy as np
from _digest import show
from interpolation import interp, mlinterp
from interpolation.splines import (
    CGrid,
    CubicSpline,
    LinearSpline,
    UCGrid,
    eval_cubic,
    eval_linear,
    extrap_options,
    filter_cubic,
)

x = np.linspace(0, 1, 20)
y = np.sin(3 * x)
points = np.random.RandomState(0).uniform(-0.2, 1.2, size=(30, 2))
show("interp", interp(x, y, points[:, 0].copy()))
table = np.add.outer(np.cos(x), x**2)
show("mlinterp", mlinterp((x, x), table, np.clip(points, 0.0, 1.0)))
uniform = UCGrid((0.0, 1.0, 20), (0.0, 1.0, 20))
show("uniform", eval_linear(uniform, table, points))
show("nearest", eval_linear(uniform, table, points, extrap_options.NEAREST))
show("constant", eval_linear(uniform, table, points, extrap_options.CONSTANT))
uneven = CGrid(x**2, (0.0, 1.0, 20))
show("uneven", eval_linear(uneven, table, points, extrap_options.LINEAR))
show("cubic", eval_cubic(uniform, filter_cubic(uniform, table), points, extrap_options.LINEAR))
low, high, orders = np.array([0.0, 0.0]), np.array([1.0, 1.0]), np.array([20, 20])
show("cubic spline", CubicSpline(low, high, orders, table)(points))
show("linear spline", LinearSpline(low, high, orders, table)(points))
