"""A chooser that makes what it chooses when it is asked first, as numbox does with intrinsics."""

import json

from nbtest import proc

PROGRAM = '''
import json, sys
from numba import njit
from numba.core import event
from numba.extending import intrinsic, overload

listener = event.RecordingListener()
event.register("numba:compile", listener)
MADE = {}
CODE = """
@intrinsic
def get_{n}(typingctx, t):
    def codegen(context, builder, sig, args):
        return builder.extract_value(args[0], {n})
    return t[{n}](t), codegen

def implementation(t):
    if t[{n}] < 0:
        raise ValueError("below zero")
    return get_{n}(t) + 1
"""

def last(t):
    pass

@overload(last)
def choose_last(t):
    n = t.count - 1
    if n not in MADE:
        exec(compile(CODE.format(n=n), __file__, "exec"), globals())
        MADE[n] = implementation
    return MADE[n]

@njit
def two(a):
    return last((a, 2 * a))

@njit
def three(a):
    return last((a, 2 * a, 3 * a))

done = []
for name in sys.argv[1:]:
    for number in (3, -1):
        try:
            done.append(globals()[name](number))
        except ValueError as error:
            done.append(str(error))
print(json.dumps([done, sum(each.is_start for _time, each in listener.buffer)]))
'''


def answers(tmp_path, *names, store="store"):
    (tmp_path / "program.py").write_text(PROGRAM)
    outcome = proc.run([tmp_path / "program.py", *names], store and tmp_path / store, cwd=tmp_path)
    assert outcome.status == 0, outcome.stderr
    return json.loads(outcome.stdout)


def test_it_is_found_again_in_whatever_order(tmp_path):
    first, compiled = answers(tmp_path, "two", "three")
    assert compiled == 4
    assert first == [7, "below zero", 10, "below zero"]
    assert answers(tmp_path, "three", "two") == [[*first[2:], *first[:2]], 0]
    assert answers(tmp_path, "three") == [first[2:], 0]
