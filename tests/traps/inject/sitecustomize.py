"""Arms nbcache in the programs under test, also where no installed `.pth` does."""

import os
import sys

if os.environ.get("NBTEST_WITHOUT"):
    sys.modules[os.environ["NBTEST_WITHOUT"]] = None  # there is no module of this name
if os.environ.get("NBCACHE_DIR"):
    from nbcache.client import hook

    hook.arm()
