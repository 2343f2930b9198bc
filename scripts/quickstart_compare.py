"""Runs quickstart_program.py without nbcache, twice over an empty store, and twice over one that only a daemon writes.

quickstart_compare.py FOLDER: the stores are FOLDER/store and FOLDER/served, made anew. Exit status 1 when a run fails,
outputs differ, or a client of the daemon had to build something itself.
"""

import json
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


def command(*arguments, environ):
    """Run an nbcache command and show it; return its exit status."""
    nbcache = os.path.join(os.path.dirname(sys.executable), "nbcache")
    print(f"$ NBCACHE_DIR={os.path.relpath(environ['NBCACHE_DIR'])} nbcache {' '.join(arguments)}", flush=True)
    return subprocess.run([nbcache, *arguments], env=environ, check=False).returncode


def embedded(store, plain):
    """Compare no cache, cold and warm, every process writing what it builds; return (output, whether all is well)."""
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
    status = command("stats", environ=cached)
    return outputs[0], same and status == 0


def served(store, plain, expected):
    """The same program twice over a store that it may only read, and a daemon; return whether all is well."""
    # By default a program compiles for itself where a daemon is too busy. What is shown here mustn't depend on that.
    waiting = {"NBCACHE_ON_MISS": "wait", "NBCACHE_WAIT_SECONDS": "120", "NBCACHE_WAIT_BUDGET": "600"}
    reading = {**plain, "NBCACHE_DIR": store, "NBCACHE_READONLY": "1", **waiting}
    log = f"{store}.log"
    print("\nNow a daemon builds, in a store that the program may only read ...\n", flush=True)
    with open(log, "w", encoding="utf-8") as file:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "nbcache", "serve", "--dir", store, "--state", f"{store}.state"],
            env=plain,
            stdout=file,
            stderr=file,
        )
    try:
        while "serving" not in read(log):
            if daemon.poll() is not None:
                sys.exit(f"quickstart: the daemon ended:\n{read(log)}")
            time.sleep(0.1)
        outputs = []
        for label in ("first client", "second client"):
            wall, output = run(reading)
            outputs.append(output)
            print(f"  {label:22s} {wall:6.2f} s", flush=True)
        same = outputs == [expected, expected]
        clients = [each for each in usage(store) if each["argv0"].endswith(os.path.basename(PROGRAM))]
        built = sum(each["builds_count"] for each in clients)
        others = sum(each["builds_count"] for each in usage(store)) - built
        print(f"  outputs                {'identical' if same else 'DIFFERENT'}")
        print(f"  built by the clients   {built:6d}, by the daemon {others}\n")
        status = command("status", environ=reading)
    finally:
        daemon.terminate()
        daemon.wait()
    print("\nThe daemon's log:")
    print(read(log), end="")
    return same and not built and status == 0


def read(path):
    """Return the text of a file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def usage(store):
    """Return the usage records of a store: one for each process that used it."""
    folder = os.path.join(store, "v1", "usage")
    return [json.loads(read(os.path.join(folder, name))) for name in os.listdir(folder) if name.endswith(".json")]


def main(folder):
    """Print both comparisons; return the exit status."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("NBCACHE_")}
    stores = [os.path.join(os.path.abspath(folder), name) for name in ("store", "served")]
    for store in stores:
        shutil.rmtree(store, ignore_errors=True)
    expected, well = embedded(stores[0], plain)
    if not (served(stores[1], plain, expected) and well):
        return 1
    say_what_is_next()
    return 0


def say_what_is_next():
    """Print how to go on with a program of one's own."""
    nbcache = os.path.join(os.path.relpath(os.path.dirname(sys.executable)), "nbcache")
    print(f"""
What to do next:
  Look around:          NBCACHE_DIR=.quickstart/store {nbcache} ls
                        NBCACHE_DIR=.quickstart/store {nbcache} why black_scholes_call
                        NBCACHE_DIR=.quickstart/store {nbcache} report
  Use it yourself:      pip install .      (into the environment of your program)
                        NBCACHE_DIR=~/.cache/nbcache python your_program.py      (twice)
                        nbcache doctor     (if the second run isn't faster)
  Share it:             docs/guarantees.md says what is guaranteed, docs/operating.md how to run a store for others.""")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
