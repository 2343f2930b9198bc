"""What belongs to the toolchain is decided by files: names prove nothing."""

import functools
import math
import os
import statistics
import subprocess
import sys
import textwrap
import types
import zipfile

import numpy as np
import pytest
from numba import njit
from numba import types as types_of_numba

from nbcache.glue.identity import ownership
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.keys.key_maker import KeyMaker


@pytest.fixture
def digest():
    return KeyMaker().engine.digest


def executed(source, scope):
    exec(compile(source, "<string>", "exec"), scope)
    return scope


@pytest.mark.parametrize("module", [np, math, statistics], ids=lambda module: module.__name__)
@pytest.mark.parametrize("name", ["f", "floor"])  # the second is one that the namespace has already
def test_a_function_in_a_copy_of_a_toolchain_namespace_is_somebodys(digest, module, name):
    def made(k):
        scope = executed(f"def {name}(x):\n    return x + K\n", dict(vars(module), K=k))
        return njit(scope[name])

    assert digest(made(1)) == digest(made(1))
    assert digest(made(1)) != digest(made(2))


def test_a_callee_in_a_copy_of_a_toolchain_namespace_counts(digest):
    def made(k):
        scope = executed(f"def g(x):\n    return x + {k}\n", dict(vars(math)))
        return njit(executed("def f(x):\n    return g(x)\n", {"g": njit(scope["g"]), "__name__": "case"})["f"])

    assert digest(made(1)) != digest(made(2))


def test_code_in_a_toolchain_modules_own_namespace_is_somebodys(digest, monkeypatch):
    monkeypatch.setattr(math, "g", None, raising=False)
    monkeypatch.setattr(math, "K", 1, raising=False)
    math.g = njit(executed("def g(x):\n    return x + K\n", vars(math))["g"])
    f = njit(executed("import math\ndef f(x):\n    return math.g(x)\n", {"__name__": "case"})["f"])
    first = digest(f)
    math.K = 2
    assert digest(f) != first


@pytest.mark.parametrize("wrap", [lambda f: f, np.vectorize, njit])
def test_what_says_that_it_is_numpys(digest, monkeypatch, wrap):
    def made(k):
        function = executed(f"def sum(a):\n    return {k}\n", {"__name__": "case"})["sum"]
        monkeypatch.setattr(np, "sum", functools.wraps(original)(wrap(function)))
        return digest(njit(executed("def f(a):\n    return np.sum(a)\n", {"np": np, "__name__": "case"})["f"]))

    original = np.sum
    try:
        assert made(1) != made(2)
    except Unidentifiable:  # the function that NumPy's own name no longer leads to
        assert wrap is not njit


def test_a_copy_of_a_module_is_nobodys(monkeypatch):
    copy = types.ModuleType("numpy")
    vars(copy).update(vars(np))
    assert ownership.edition_of(np) == ""
    assert ownership.edition_of(copy) is None
    monkeypatch.setitem(sys.modules, "numpy", copy)
    assert ownership.edition_of(np) is None
    # It is loaded from NumPy's file, under NumPy's name.
    assert ownership.edition_of(copy) == ""


def test_a_module_that_was_made_up(monkeypatch):
    monkeypatch.setitem(sys.modules, "statistics", types.ModuleType("statistics"))
    assert not ownership.is_toolchain_module("statistics")


@pytest.mark.parametrize(
    "name",
    [
        "os", "os.path", "sys", "builtins", "math", "_thread", "json.decoder", "statistics", "importlib._bootstrap", "zipimport",
        "numpy", "numpy.linalg", "numba.core.types", "llvmlite.binding", "nbcache.glue",
        "wave", "numba.stencils.stencilparfor", "numpy.polynomial.legendre",  # perhaps not imported
    ],
)  # fmt: skip
def test_the_toolchains_modules(name):
    assert ownership.is_toolchain_module(name)


@pytest.mark.parametrize(
    "name", ["__main__", "pytest", "numba.tests.support", "numpy.tests", "scipy", "nowhere", "sitecustomize"]
)
def test_others_modules(name):
    if name == "numba.tests.support":
        pytest.importorskip(name)
    assert not ownership.is_toolchain_module(name)


def test_every_module_of_the_toolchain_that_is_loaded():
    """Names say the same where nothing is in the toolchain's place."""
    roots = {"numba", "numpy", "llvmlite"} | sys.stdlib_module_names - {"sitecustomize", "usercustomize"}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and name.partition(".")[0] in roots - {"distutils"} and ".tests" not in name:
            assert ownership.is_toolchain_module(name), name


@pytest.mark.parametrize(
    "function", [np.sum, np.linalg.norm, math.sin, len, int, np.float64, os.path.join, statistics.mean]
)
def test_names_of_the_toolchains_own(function):
    name = ownership.toolchain_name(function)
    assert name is not None
    assert name.endswith(":" + function.__qualname__)


PROGRAM = """
import sys
import statistics
from numba import njit
from numba import types as types_of_numba
from nbcache.glue.keys.key_maker import KeyMaker
@njit
def f(x):
    return statistics.helper(x)
import numba, os, json
from nbcache.glue.identity import registration
from nbcache.glue.identity import registrations
from nbcache.glue.identity import ownership
print(KeyMaker().engine.digest(f).hex(), ownership.is_toolchain_module("os"), ownership.is_toolchain_module("json.decoder"),
      ownership.is_toolchain_module("numba.core"), ownership.toolchain_name(json.dumps), ownership.is_toolchain_module("statistics"))
"""


def run(folder, executable=sys.executable, **env):
    (folder / "main.py").write_text(PROGRAM)
    outcome = subprocess.run(
        [executable, folder / "main.py"], capture_output=True, text=True, check=True, env=dict(os.environ, **env)
    )
    return outcome.stdout.split()


@pytest.mark.every(2)
@pytest.mark.parametrize("place", ["statistics.py", "statistics/__init__.py"])
def test_a_script_beside_the_program_with_a_name_of_the_library(tmp_path, place):
    outcomes = []
    for k in (1, 2):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(
            f"from numba import njit\nK = {k}\n@njit\ndef g(x):\n    return x * K\n@njit\ndef helper(x):\n    return g(x)\n"
        )
        outcomes.append(run(tmp_path, PYTHONDONTWRITEBYTECODE="1"))
    assert outcomes[0][0] != outcomes[1][0]
    assert outcomes[0][1:] == outcomes[1][1:] == ["True", "True", "True", "json:dumps", "False"]


def test_a_virtual_environment_behind_a_link(tmp_path):
    (tmp_path / "statistics.py").write_text("def helper(x):\n    return x\n")
    (tmp_path / "env").symlink_to(sys.prefix)
    outcome = run(tmp_path, tmp_path / "env" / "bin" / "python")
    assert outcome[1:] == ["True", "True", "True", "json:dumps", "False"]


def test_a_library_in_an_archive(tmp_path):
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as file:
        folder = os.path.dirname(os.__file__)
        file.write(os.path.join(folder, "statistics.py"), "statistics.py")
    source = textwrap.dedent("""
        import sys, os
        os.__file__ = sys.argv[1] + "/os.py"
        sys.path.insert(0, sys.argv[1])
        import statistics
        assert "library.zip" in statistics.__file__
        from nbcache.glue.identity import ownership
        print(ownership.is_toolchain_module("statistics"), ownership.toolchain_name(statistics.mean))
    """)
    command = [sys.executable, "-c", source, archive]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True)
    assert outcome.stdout.split() == ["True", "statistics:mean"]


def test_a_distributors_sitecustomize_is_somebodys():
    library = os.path.dirname(os.__file__)
    assert ownership._edition_of_file(os.path.join(library, "sitecustomize.py")) is None
    assert ownership._edition_of_file(os.path.join(library, "site-packages", "wave.py")) is None
    assert ownership._edition_of_file(os.path.join(library, "wave.py")) == ""


def test_numba_cuda_in_the_place_of_numba_cuda(tmp_path, monkeypatch):
    """Its files count by name, with its version, which nothing else of the key knows."""
    package = tmp_path / "numba_cuda" / "numba" / "cuda"
    package.mkdir(parents=True)
    (tmp_path / "numba_cuda" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("def jit(f):\n    return f\n")
    metadata = tmp_path / "numba_cuda-9.9.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: numba-cuda\nVersion: 9.9\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = types.ModuleType("numba.cuda")
    module.__file__ = str(package / "__init__.py")
    monkeypatch.setitem(sys.modules, "numba.cuda", module)
    exec(compile((package / "__init__.py").read_text(), module.__file__, "exec"), vars(module))
    for cached in (ownership._edition_of_file, ownership._redirected_version):
        cached.cache_clear()
    try:
        assert not ownership.is_toolchain_module("numba.cuda")
        assert ownership.edition_of(module) == "numba-cuda 9.9"
        assert ownership.toolchain_name(module.jit) == "numba.cuda:jit numba-cuda 9.9"
    finally:
        for cached in (ownership._edition_of_file, ownership._redirected_version):
            cached.cache_clear()


def test_classes_that_say_they_are_the_toolchains():
    scope = executed("class Error(ValueError): pass", {})
    assert scope["Error"].__module__ == "builtins"
    assert not ownership.is_toolchain_definition(scope["Error"])
    scope = executed("class Error(ValueError): pass", dict(vars(np)))
    assert not ownership.is_toolchain_definition(scope["Error"])
    assert ownership.is_toolchain_definition(ValueError)
    assert ownership.is_toolchain_definition(np.exceptions.AxisError)


def test_numbas_own_templates_are_the_toolchains():
    """In a process of its own: what other tests registered is theirs."""
    program = (
        "from nbcache.glue.identity import ownership\n"
        "from numba.core.registry import cpu_target\n"
        "cpu_target.typing_context.refresh()\n"
        "known = cpu_target.typing_context._functions.values()\n"
        "kinds = [type(template) for each in known for template in each]\n"
        "print(len(kinds) > 100, [kind for kind in kinds if not ownership.is_toolchain_definition(kind)])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True []\n"


def somebodys_method():
    from numba.core.typing.builtins import Len

    return type("Len", (Len,), {"generic": lambda self, args, kws: None, "__module__": Len.__module__})


def somebodys_class_within_numbas_module():
    return type("Nowhere", (), {"__module__": "numba.core.typing.builtins"})


def somebodys_overload():
    from numba.core.typing.templates import make_overload_template

    return make_overload_template(len, lambda x: None, {}, True, "never")


def function_around_somebodys():
    from numba.core.imputils import _decorate_getattr

    return _decorate_getattr(lambda context, builder, typ, value: None, "ty", "attr")


def method_around_somebodys():
    from numba.core.typing.builtins import Len

    own = functools.wraps(Len.generic)(function_around_somebodys())
    return type("Len", (Len,), {"generic": own, "__module__": Len.__module__})


def somebodys_property():
    return type("Len", (somebodys_method().__mro__[1],), {"key": property(lambda self: len)})


@pytest.mark.parametrize(
    "made",
    [somebodys_method, somebodys_class_within_numbas_module, somebodys_overload, function_around_somebodys,
     method_around_somebodys, somebodys_property],
)  # fmt: skip
def test_somebodys_among_many(made):
    assert ownership.are_toolchain_definitions([statistics.mean, OSError])
    assert not ownership.are_toolchain_definitions([statistics.mean, OSError, made()])


@pytest.mark.parametrize(
    "key", [type("Own", (), {}), lambda x: x, type("OwnType", (types_of_numba.Type,), {"__module__": __name__})("own")]
)
def test_for_whom_it_is_registered(key):
    from numba.core.typing.builtins import Len

    from nbcache.glue.identity import registration

    assert registration.are_numbas([Len], [len])
    assert not registration.are_numbas([Len], [len, key])


def test_nobody_extends_numba():
    code = """
        from numba.core.registry import cpu_target
        from nbcache.glue.identity import registrations, unregistered
        looked = []
        registrations.is_others = lambda *args: looked.append(args)
        index = registrations.ExtensionIndex()
        context = cpu_target.typing_context
        context.refresh()
        assert len(context._functions) > 50
        for registry in unregistered.registries()[0]:
            index._read_typing(registry)
        index._read_tables([*index._tables])
        assert len(index._positions) > 10 and not looked, looked
        """
    subprocess.run([sys.executable, "-c", "import numba\n" + textwrap.dedent(code)], check=True)


def test_who_speaks_for_others_is_found_out_again_when_somebody_joins():
    code = """
        import abc
        from numba.core import types
        from numba.core.typing.typeof import typeof_impl
        from nbcache.glue.identity import registrations
        from nbcache.glue.identity.asked_names import EVERYTHING

        class Shape(abc.ABC):
            pass

        typeof_impl.register(Shape)(lambda value, context: types.int64)
        index = registrations.ExtensionIndex()
        index.refresh()
        assert index.registered(EVERYTHING) == []
        generation = index.refresh()
        Shape.register(type("Round", (), {}))
        assert index.refresh() > generation
        assert [each.key for each in index.registered(EVERYTHING)] == [Shape]
        """
    subprocess.run([sys.executable, "-c", "import numba\n" + textwrap.dedent(code)], check=True)
