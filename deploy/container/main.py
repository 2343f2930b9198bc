"""An example of a program: it smooths a signal."""

import numpy as np
from signals import smooth

print(smooth(np.arange(10.0), 2).sum())
