"""A process with Numba imported that forks one child per program run.

Started as ``python zygote.py [--warm]``, with nbcache armed or not by its environment. It reads one JSON line per run
(``main``, ``cwd``, ``env``, ``out``, ``err``) and answers with the child's wait status. The child returns from
``serve`` and ends as any interpreter does, so that exit handlers run. ``--warm`` loads Numba's registries beforehand.
"""

import json
import os
import signal
import sys
import types

RUN_LIMIT = 300  # [s]; past it the child is killed by SIGALRM


def serve():
    """Fork a child per request; return the request in the child, None when there are no more."""
    requests, replies = sys.stdin, sys.stdout
    for line in requests:
        pid = os.fork()
        if pid == 0:
            return json.loads(line)
        _, status = os.waitpid(pid, 0)
        replies.write(json.dumps({"status": os.waitstatus_to_exitcode(status)}) + "\n")
        replies.flush()
    return None


def become(request):
    """Set up the child as a fresh ``python main.py`` would be."""
    signal.alarm(RUN_LIMIT)
    for fd, path in ((1, request["out"]), (2, request["err"])):
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(target, fd)
        os.close(target)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    os.chdir(request["cwd"])
    os.environ.update(request["env"])
    sys.argv = [request["main"]]
    sys.path[0] = os.path.dirname(request["main"])


def execute(path):
    """Run the file as ``__main__``."""
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = __builtins__
    sys.modules["__main__"] = module
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), module.__dict__)


if __name__ == "__main__":
    if "--warm" in sys.argv:
        from numba.core.registry import cpu_target

        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()
    run = serve()
    if run is not None:
        become(run)
        execute(run["main"])
