"""``python -m nbcache`` is the command ``nbcache``."""

import sys

from nbcache.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
