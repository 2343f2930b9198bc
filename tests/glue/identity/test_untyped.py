"""What compiled code can't use because Numba has no type for it, and what only looks like that."""

import pytest

SWITCHED_OFF = """
    DEBUG = False
    class Watcher:
        {members}
    watcher, lines = Watcher(), {lines}
    @njit
    def f(x):
        if DEBUG:
            watcher.saw(x)
            next(lines)
        return x + 1
    print(f(1), Events.seen)
    """
COUNTS = "def __init__(self): self.at = {at}"
SPEAKS = "def __getattr__(self, name): raise AttributeError({at})"


def test_the_state_of_what_is_never_used_counts_for_nothing(run):
    def said(members, lines):
        return run(SWITCHED_OFF.format(members=members, lines=lines))[0]

    assert said(COUNTS.format(at=1), "open(__file__)") == "2 ['f']\n"
    assert said(COUNTS.format(at=2), "open(__file__, 'rb')") == "2 []\n"


@pytest.mark.long
def test_not_if_the_class_may_answer_when_numba_asks(run):
    def said(members):
        return run(SWITCHED_OFF.format(members=members, lines="None"))[0]

    assert said(SPEAKS.format(at=1)) == "2 ['f']\n"
    assert said(SPEAKS.format(at=2)) == "2 ['f']\n"


WITH_A_TYPE = """
    from numba import types
    from numba.extending import lower_builtin, models, overload_attribute, register_model, typeof_impl
    from numba.core.imputils import lower_constant
    class Scale:
        def __init__(self, factor):
            self.factor = factor
    class ScaleType(types.Dummy):
        def __init__(self, factor):
            self.factor = factor
            super().__init__(f"Scale({{factor}})")
    register_model(ScaleType)(models.OpaqueModel)
    typeof_impl.register(Scale)(lambda scale, c: ScaleType(scale.factor))
    lower_constant(ScaleType)(lambda context, builder, ty, value: context.get_dummy_value())
    @overload_attribute(ScaleType, "factor")
    def factor(scale):
        value = scale.factor
        return lambda scale: value
    SCALE = Scale({factor})
    @njit
    def f(x):
        return x * SCALE.factor
    print(f(1), "f" in Events.seen)
    """


@pytest.mark.long
def test_a_class_that_got_a_type_counts_by_what_its_instance_holds(run):
    assert run(WITH_A_TYPE.format(factor=2))[0] == "2 True\n"
    assert run(WITH_A_TYPE.format(factor=3))[0] == "3 True\n"
    assert run(WITH_A_TYPE.format(factor=2))[0] == "2 False\n"


WITH_A_PASS = """
    from numba.core import ir
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import FunctionPass, register_pass
    from numba.core.untyped_passes import IRProcessing
    class Number:
        def __init__(self): self.value = {value}
    NUMBER, OFF = Number(), False
    @register_pass(mutates_CFG=False, analysis_only=False)
    class Constants(FunctionPass):
        _name = "constants"
        def __init__(self): FunctionPass.__init__(self)
        def run_pass(self, state):
            for block in state.func_ir.blocks.values():
                for each in block.find_insts(ir.Assign):
                    if isinstance(each.value, ir.Global) and isinstance(each.value.value, Number):
                        each.value = ir.Const(each.value.value.value, each.loc)
            return True
    class Compiler(CompilerBase):
        def define_pipelines(self):
            made = DefaultPassBuilder.define_nopython_pipeline(self.state)
            made.add_pass_after(Constants, IRProcessing)
            made.finalize()
            return [made]
    @njit(pipeline_class=Compiler)
    def f(x):
        return x + NUMBER
    print(f(1), "f" in Events.seen)
    """


@pytest.mark.long
def test_a_pass_of_the_programs_may_read_it(run):
    assert run(WITH_A_PASS.format(value=2))[0] == "3 True\n"
    assert run(WITH_A_PASS.format(value=5))[0] == "6 True\n"
    assert run(WITH_A_PASS.format(value=2))[0] == "3 False\n"
