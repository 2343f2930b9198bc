#!/usr/bin/env python3
"""`nbcache prewarm` for a deploy step: the same options, run with the interpreter that has nbcache.

python scripts/prewarm.py --dir /shared/nbcache warm.jsonl
"""

import sys

from nbcache.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["prewarm", *sys.argv[1:]]))
