"""Calls what users of the example call first, with the types that they use."""

import numpy as np
from signals import smooth

smooth(np.arange(10.0), 2)
