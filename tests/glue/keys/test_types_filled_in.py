"""Types of a program's own that hold something which is filled in while a function is compiled."""

from nbtest import proc

COMMON = """
import json
from numba import njit, types
from numba.core import event
from numba.extending import lower_builtin, models, overload, register_model, type_callable, typeof_impl, unbox
from numba.extending import NativeValue

listener = event.RecordingListener()
event.register("numba:compile", listener)

class Value:
    pass

class ValueType(types.Type):
    def __init__(self):
        self.known = {}
        super().__init__(name="Value")

the_type = ValueType()
register_model(ValueType)(models.OpaqueModel)
typeof_impl.register(Value)(lambda value, context: the_type)

@unbox(ValueType)
def unbox_value(typ, obj, c):
    return NativeValue(c.context.get_dummy_value())
"""
BY_LOWERING = (
    COMMON
    + """
def touch(x):
    pass

@type_callable(touch)
def type_touch(context):
    return lambda x: types.int64 if isinstance(x, ValueType) else None

@lower_builtin(touch, ValueType)
def lower_touch(context, builder, sig, args):
    sig.args[0].known.setdefault("touched", 1)
    return context.get_constant(types.int64, 5)

def many(x):
    pass

@overload(many)
def choose_many(x):
    n = len(x.known)
    return lambda x: n

@njit
def f(x):
    return touch(x)

@njit
def g(x):
    return many(x)

print(json.dumps([f(Value()), g(Value())]))
"""
)
BY_A_TEMPLATE = (
    COMMON
    + """
from numba.core.typing.templates import _OverloadAttributeTemplate, make_overload_attribute_template, AbstractTemplate
from numba.core.typing.templates import InlineOptions
from numba.extending import infer_getattr, lower_builtin

def choose_size(self):
    return lambda self: 3.0

class OwnKind(_OverloadAttributeTemplate):
    is_method = True

    def _init_once(self):
        cls = type(self)

        @self._get_target_registry("own").lower((cls.key, cls._attr), cls.key, types.VarArg(types.Any))
        def lowered(context, builder, sig, args):
            typ = sig.args[0]
            template = cls._get_function_type(context.typing_context, typ)
            signature = cls._get_signature(context.typing_context, template, sig.args, {})
            call = context.get_function(template, signature)
            context.add_linking_libs(getattr(call, "libs", ()))
            return call(builder, args)

    def _resolve(self, typ, attr):
        if self._attr != attr:
            return None

        class MethodTemplate(AbstractTemplate):
            key = (self.key, attr)
            _inline = self._inline
            _overload_func = staticmethod(self._overload_func)
            _inline_overloads = self._inline_overloads

            def generic(_, args, kws):
                template = self._get_function_type(self.context, typ)
                sig = self._get_signature(self.context, template, (typ, *args), kws)
                return None if sig is None else sig.as_method()

        return types.BoundFunction(MethodTemplate, typ)

infer_getattr(make_overload_attribute_template(ValueType, "size", choose_size, base=OwnKind))
overload(choose_size)(choose_size)

@njit
def f(x):
    return x.size()

@njit
def g(x):
    return x.size() + 1

print(json.dumps([f(Value()), g(Value()), sum(each.is_start for _time, each in listener.buffer)]))
"""
)
WRITTEN = """is_method = True
    key = ValueType
    _attr = "size"
    _overload_func = staticmethod(choose_size)
    _inline = staticmethod(InlineOptions("never"))
    _inline_overloads = {}
    metadata = {}
    prefer_literal = False
    _jit_options = {}
    _strict = True
"""
BY_A_CHOOSER = """
import json
from numba import njit, types
from numba.core import event
from numba.extending import NativeValue, box, models, overload, register_model, typeof_impl, unbox

listener = event.RecordingListener()
event.register("numba:compile", listener)

class Left:
    pass

class Right:
    pass

class OneType(types.Type):
    def __init__(self, of):
        self.of = of
        self.itself = self
        super().__init__(name=f"One({of.__name__})")

types_of = {Left: OneType(Left), Right: OneType(Right)}
register_model(OneType)(models.OpaqueModel)

@typeof_impl.register(Left)
@typeof_impl.register(Right)
def typeof_one(value, context):
    return types_of[type(value)]

@unbox(OneType)
def unbox_one(typ, obj, c):
    return NativeValue(c.context.get_dummy_value())

@box(OneType)
def box_one(typ, value, c):
    return c.pyapi.call_function_objargs(c.pyapi.unserialize(c.pyapi.serialize_object(typ.of)), ())

def later(x, y):
    pass

@overload(later)
def choose_later(x, y):
    if not hasattr(y, "kind"):
        y.kind = OneType(int)
    return lambda x, y: x

@njit
def f(x, y):
    return later(x, y)

print(json.dumps([type(f(Right(), Left())).__name__, sum(each.is_start for _time, each in listener.buffer)]))
"""

WITH_CACHED_PROPERTIES = """
import functools
import json
import sys
from numba import njit, types
from numba.core import cgutils, event
from numba.extending import (
    NativeValue, box, intrinsic, make_attribute_wrapper, models, overload_method, register_model, typeof_impl, unbox,
)

listener = event.RecordingListener()
event.register("numba:compile", listener)

def nothing():
    pass

class Item:
    number = 2

class Left:
    number = 1

class Right:
    number = 3

class OneType(types.Type):
    def __init__(self, cls):
        self.cls = cls
        super().__init__(name=f"One({cls.__name__}, {nothing})")

    @functools.cached_property
    def members(self):
        return [("value", types.float64)]

    @functools.cached_property
    def item(self):
        return types_of[Item]

types_of = {cls: OneType(cls) for cls in (Item, Left, Right)}

@register_model(OneType)
class OneModel(models.StructModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, fe_type.members)

make_attribute_wrapper(OneType, "value", "value")

for cls in types_of:
    typeof_impl.register(cls)(lambda value, context: types_of[type(value)])

@unbox(OneType)
def unbox_one(typ, obj, c):
    made = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    made.value = c.context.get_constant(types.float64, 0.5)
    return NativeValue(made._getvalue())

@box(OneType)
def box_one(typ, value, c):
    return c.pyapi.make_none()

@intrinsic
def item_of(typingctx, value):
    def codegen(context, builder, sig, args):
        made = cgutils.create_struct_proxy(sig.return_type)(context, builder)
        made.value = args[0]
        return made._getvalue()
    return types_of[Item](types.float64), codegen

@overload_method(OneType, "number")
def number(self):
    number = self.cls.number
    return lambda self: number

@njit
def first(x, y):
    return x

@njit
def number_of_first(x, y):
    return first(x, y).number()

@njit
def value_of_item(x):
    return item_of(x.value).value

said = []
for word in sys.argv[1:]:
    if word == "number":
        said.append(number_of_first(Left(), Right()))
    elif word == "value":
        said.append(value_of_item(Left()))
    elif word == "first":
        first(Left(), Right())
    else:
        types_of[Right].item
print(json.dumps([*said, sum(each.is_start for _time, each in listener.buffer)]))
"""


def said(tmp_path, program, store="store", words=()):
    (tmp_path / "program.py").write_text(program)
    outcome = proc.run([tmp_path / "program.py", *words], store and tmp_path / store, cwd=tmp_path)
    assert outcome.status == 0, outcome.stderr
    return outcome.stdout


def test_what_lowering_fills_in_is_there_for_who_reads_it_later(tmp_path):
    plain = said(tmp_path, BY_LOWERING, store=None)
    assert plain == "[5, 1]\n"
    assert [said(tmp_path, BY_LOWERING) for _run in range(3)] == [plain] * 3


def test_what_a_template_registers_at_its_first_use_adds_nothing_to_it(tmp_path):
    assert said(tmp_path, BY_A_TEMPLATE) == "[3.0, 4.0, 3]\n"
    assert said(tmp_path, BY_A_TEMPLATE) == "[3.0, 4.0, 0]\n"


def test_what_a_template_of_ones_own_consists_of_counts(tmp_path):
    assert said(tmp_path, BY_A_TEMPLATE).startswith("[3.0, 4.0, ")
    other = BY_A_TEMPLATE.replace("call(builder, args)", "builder.fadd(call(builder, args), sig.return_type(2))")
    other = other.replace("sig.return_type(2)", "context.get_constant(sig.return_type, 2)")
    plain = said(tmp_path, other, store=None)
    assert plain.startswith("[5.0, 6.0, ")
    assert said(tmp_path, other)[:9] == plain[:9]


def test_so_does_a_template_that_is_registered_as_it_was_written(tmp_path):
    made = 'infer_getattr(make_overload_attribute_template(ValueType, "size", choose_size, base=OwnKind))'
    written = BY_A_TEMPLATE.replace(made, "infer_getattr(OwnKind)").replace("is_method = True", WRITTEN)
    assert said(tmp_path, written) == "[3.0, 4.0, 3]\n"
    assert said(tmp_path, written) == "[3.0, 4.0, 0]\n"
    other = written.replace("return call(builder, args)", "return builder.fneg(call(builder, args))")
    assert said(tmp_path, other)[:12] == "[-3.0, -2.0,"


def test_types_stand_by_the_places_that_they_had_before_anything_was_filled_in(tmp_path):
    assert said(tmp_path, BY_A_CHOOSER, store=None).startswith('["Right", ')
    assert said(tmp_path, BY_A_CHOOSER).startswith('["Right", ')
    assert said(tmp_path, BY_A_CHOOSER) == '["Right", 0]\n'


def test_a_type_that_a_cached_property_remembers_has_no_place(tmp_path):
    plain = said(tmp_path, WITH_CACHED_PROPERTIES, store=None, words=["remember", "number"])
    assert plain == "[1, 3]\n"
    assert said(tmp_path, WITH_CACHED_PROPERTIES, words=["first"]) == "[1]\n"
    assert said(tmp_path, WITH_CACHED_PROPERTIES, words=["remember", "number"]) == "[1, 2]\n"
    assert said(tmp_path, WITH_CACHED_PROPERTIES, words=["number"]) == "[1, 0]\n"


def test_what_cached_properties_remember_and_an_address_say_nothing_of_an_answer(tmp_path):
    assert said(tmp_path, WITH_CACHED_PROPERTIES, words=["value"]) == "[0.5, 1]\n"
    assert said(tmp_path, WITH_CACHED_PROPERTIES, words=["value"]) == "[0.5, 0]\n"
