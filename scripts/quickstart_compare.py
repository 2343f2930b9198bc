"""Runs quickstart_program.py without nbcache, then twice with it over an empty store, and compares.

quickstart_compare.py FOLDER: the store is FOLDER/store, made anew. Exit status 1 when a run fails or outputs differ.
"""

import os
import shutil
import subprocess
import sys
import time

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "quickstart_program.py")


def run(environ):
    """Run the program in a new process; return (wall time [s], its output)."""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, PROGRAM], env=environ, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"quickstart: the program ended with status {done.returncode}")
    return time.perf_counter() - started, done.stdout


def main(folder):
    """Print the comparison; return the exit status."""
    store = os.path.join(os.path.abspath(folder), "store")
    shutil.rmtree(store, ignore_errors=True)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("NBCACHE_")}
    cached = {**plain, "NBCACHE_DIR": store}

    print("Running scripts/quickstart_program.py three times ...\n", flush=True)
    runs = [("without nbcache", plain), ("cold: first process", cached), ("warm: second process", cached)]
    walls, outputs = [], []
    for label, environ in runs:
        wall, output = run(environ)
        if not outputs:
            print(output)
        print(f"  {label:22s} {wall:6.2f} s", flush=True)
        walls.append(wall)
        outputs.append(output)
    same = all(output == outputs[0] for output in outputs)
    print(f"\n  cold / warm            {walls[1] / walls[2]:6.1f} x")
    print(f"  outputs                {'identical' if same else 'DIFFERENT'}\n")

    print(f"$ NBCACHE_DIR={os.path.relpath(store)} nbcache stats", flush=True)
    command = os.path.join(os.path.dirname(sys.executable), "nbcache")
    status = subprocess.run([command, "stats"], env=cached, check=False).returncode
    return status if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
