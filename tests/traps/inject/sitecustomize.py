"""Arms nbcache in the programs under test, also where no installed `.pth` does."""

import os

if os.environ.get("NBCACHE_DIR"):
    from nbcache.client import hook

    hook.arm()
