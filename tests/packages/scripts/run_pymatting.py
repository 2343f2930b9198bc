"""Alpha matting: a Laplacian, an incomplete Cholesky decomposition, neighbours and a foreground; most of it eager."""

import numpy as np
import scipy.sparse
from _digest import show
from pymatting import cf_laplacian, estimate_foreground_ml, ichol
from pymatting.util.kdtree import knn

rng = np.random.RandomState(0)
_row, column = np.mgrid[:24, :24]
alpha = np.clip((column - 6) / 12.0, 0.0, 1.0)
image = np.clip(alpha[:, :, None] * [0.9, 0.2, 0.1] + (1 - alpha[:, :, None]) * [0.1, 0.3, 0.8], 0.0, 1.0)
image = np.clip(image + rng.uniform(-0.02, 0.02, size=image.shape), 0.0, 1.0)
laplacian = cf_laplacian(image)
show("laplacian", laplacian.toarray())
decomposed = ichol((laplacian + 0.1 * scipy.sparse.identity(24 * 24)).tocsc())
show("decomposed", decomposed(rng.normal(size=24 * 24)))
points = rng.normal(size=(80, 3)).astype(np.float32)
show("neighbours", list(knn(points, points[:9] + np.float32(0.1), 4)))
show("foreground", estimate_foreground_ml(image, alpha))
