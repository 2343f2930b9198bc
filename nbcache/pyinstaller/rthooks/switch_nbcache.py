"""What the line in ``nbcache.pth`` does, in a program that PyInstaller made: it has no `site` that reads such files."""

import os

if os.environ.get("NBCACHE_DIR") or os.environ.get("NBCACHE_COUNT") or os.environ.get("NBCACHE_DISABLE_ALL"):
    try:
        import _nbcache

        _nbcache.switch()
    except Exception:  # noqa: BLE001, S110  a cache that is broken must not keep a program from starting
        pass
