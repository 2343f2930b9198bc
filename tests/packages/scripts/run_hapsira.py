"""Orbits: elements, propagation, Lambert's problem and manoeuvres; scalar functions that call each other."""

import numpy as np
from _digest import show
from hapsira.core import angles, elements, iod, maneuver, perturbations
from hapsira.core.propagation import farnocchia, mikkola, vallado

k = 398600.4418
r, v = np.array([6800.0, 1200.0, -300.0]), np.array([-1.1, 7.2, 1.4])
show("elements", elements.rv2coe(k, r, v))
show("back", elements.coe2rv(k, *elements.rv2coe(k, r, v)))
show("many", elements.coe2rv_many(*np.tile((k, *elements.rv2coe(k, r, v)), (4, 1)).T.copy()))
show("farnocchia", farnocchia(k, r, v, 2700.0))
show("vallado", vallado(k, r, v, 2700.0, 60))
show("mikkola", mikkola(k, r, v, 2700.0))
show("lambert", iod.izzo(k, r, np.array([-7000.0, 3000.0, 500.0]), 3000.0, 0, True, True, 35, 1e-8))
show("hohmann", maneuver.hohmann(k, (r, v), 42000.0))
show("anomaly", [angles.M_to_E(0.4, 0.3), angles.E_to_nu(0.5, 0.3), angles.nu_to_F(0.2, 1.4)])
show("flattened", perturbations.J2_perturbation(0.0, np.concatenate((r, v)), k, 0.00108263, 6378.1))
