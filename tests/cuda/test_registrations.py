"""What others registered for CUDA is told apart from numba-cuda's own, at one look as by looking at each thing."""

import os
import subprocess
import sys

from nbtest.kernels import needs_numba_cuda

pytestmark = needs_numba_cuda

PROGRAM = """
import functools
from numba import cuda, types
from numba.cuda import dispatcher
from numba.cuda.core import imputils
from numba.cuda.typing import templates
from nbcache.glue.cuda import registrations

class Mine:
    key = "mine"
class Typed(types.Type):
    pass
def mine(context, builder, sig, args):
    return args[0]
def around(function):
    return lambda: function
def hidden(function):
    def shown():
        pass
    shown.__wrapped__ = function
    return shown
template = type("Template", (templates.AbstractTemplate,), {"generic": property(mine), "__module__": templates.__name__})
endless = []
endless.append(endless)
bound = functools.partial(mine)
own = [*imputils.builtin_registry.functions, *((cls, cls.key) for cls in templates.builtin_registry.functions)]
assert own and registrations._Judge().is_all_known(own)
assert not any(map(registrations._Judge().is_foreign, own))
assert registrations._Judge().is_all_known([("name", 1, None, (types.int32, [types.float64])), print, lambda: None])
for foreign in (mine, Mine, Typed("typed"), around(mine), around(around(mine)), hidden(mine), staticmethod(mine), bound,
                template, [types.int32, (mine,)]):
    assert registrations._Judge().is_foreign(foreign), foreign
    assert not registrations._Judge().is_all_known([*own, (foreign, types.int32)]), foreign
    assert not registrations._Judge().is_all_known([*own, foreign]), foreign
assert not registrations._Judge().is_all_known([endless])
judge = registrations._Judge()
assert [*judge.modules_in([[mine, Mine], types.int32])] == ["__main__", "__main__"]
"""


def test_what_is_foreign_is_foreign_at_one_look(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, program], check=True, env={**os.environ, "PYTHONPATH": ""})
