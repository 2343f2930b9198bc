"""Family 23: what iteration over a class, a flag or an array's properties leaves out."""

from ..harness import Program, main, py, replaced, trap


def _edit(name: str, body: str, settings: str, *pairs: tuple[str, str], **options) -> Program:
    """Return a program over `settings.py`, which is edited."""
    files = {"main.py": main(body), "settings.py": py(settings)}
    return trap(f"hidden-{name}", 23, files, replaced(files, "settings.py", *pairs), **options)


_ALIAS = """
    from settings import Level

    @njit
    def f(x):
        return x * Level.DEFAULT.value

    show("f", f, 10)
    """
_TAGGED = """
    from numba import types
    from numba.extending import NativeValue, models, overload, register_model, typeof_impl, unbox

    class Tag:
        def __init__(self, text):
            self.text = text

    class TagType(types.Type):
        {slots}

        def __init__(self, text):
            {fields}

        @property
        def key(self):
            return {key}

    @typeof_impl.register(Tag)
    def typeof_tag(value, context):
        return TagType(value.text)

    register_model(TagType)(models.OpaqueModel)

    @unbox(TagType)
    def unbox_tag(typ, obj, c):
        return NativeValue(obj)

    def number(tag):
        raise NotImplementedError

    @overload(number)
    def choose(tag):
        found = int({read}, 16)
        return lambda tag: found
    """
_TAGS = """
    import settings

    @njit
    def f(tag):
        return settings.number(tag)

    for text in ("ff0000", "00ff00"):
        show(text, f, settings.Tag(text))
    """


def _tagged(name: str, fields: str, read: str, key: str = "self.name", slots: str = "", **options) -> Program:
    """Return a program over types that differ only where it says, in one process."""
    settings = _TAGGED.format(fields=fields, read=read, key=key, slots=slots)
    files = {"main.py": main(_TAGS), "settings.py": py(settings)}
    return trap(f"hidden-{name}", 23, files, differs=False, **options)


PROGRAMS = (
    _edit(
        "alias-of-an-enum",
        _ALIAS,
        """
        from enum import Enum

        class Level(Enum):
            LOW = 1
            HIGH = 2
            DEFAULT = 1
        """,
        ("DEFAULT = 1", "DEFAULT = 2"),
    ),
    _edit(
        "alias-of-an-int-enum-of-a-module",
        _ALIAS.replace("from settings import Level", "import settings").replace("Level.", "settings.Level."),
        """
        from enum import IntEnum

        class Level(IntEnum):
            LOW = 1
            HIGH = 2
            DEFAULT = LOW
        """,
        ("= LOW", "= HIGH"),
    ),
    _edit(
        "alias-of-an-enum-of-an-argument",
        """
        from settings import Level

        @njit
        def f(level):
            return level == Level.DEFAULT, level is Level.LOW

        show("f", f, Level.HIGH)
        """,
        """
        from enum import Enum

        class Level(Enum):
            LOW = 1
            HIGH = 2
            DEFAULT = 1
        """,
        ("DEFAULT = 1", "DEFAULT = 2"),
    ),
    _edit(
        "alias-looked-up-by-name",
        """
        from settings import Level

        @njit
        def f(x):
            return x * Level["DEFAULT"].value

        show("f", f, 10)
        """,
        """
        from enum import Enum

        class Level(Enum):
            LOW = 1
            HIGH = 2
            DEFAULT = 1
        """,
        ("DEFAULT = 1", "DEFAULT = 2"),
    ),
    _edit(
        "composite-flag",
        """
        from settings import Mode

        @njit
        def f(x):
            return x + Mode.BOTH.value

        show("f", f, 10)
        """,
        """
        from enum import IntFlag

        class Mode(IntFlag):
            R = 4
            W = 2
            X = 1
            BOTH = R | W
        """,
        ("R | W", "R | X"),
    ),
    _edit(
        "flag-of-zero",
        """
        from settings import Mode

        @njit
        def f(x):
            return Mode.NONE.value if x & Mode.NONE.value == 0 else x

        show("f", f, 6)
        """,
        """
        from enum import IntFlag

        class Mode(IntFlag):
            R = 4
            W = 2
            NONE = 0
        """,
        ("NONE = 0", "NONE = 6"),
    ),
    _edit(
        "member-of-its-own-attributes",
        """
        import settings

        @njit
        def f(x):
            return settings.thing(x)

        show("f", f, 10)
        """,
        """
        from enum import Enum
        from numba.extending import overload

        class Planet(Enum):
            EARTH = 1
            MARS = 2

            @property
            def mass(self):
                return 5 * self.value

        def thing(x):
            raise NotImplementedError

        @overload(thing)
        def choose(x):
            mass = Planet.EARTH.mass
            return lambda x: x * mass
        """,
        ("return 5", "return 6"),
    ),
    _edit(
        "strides-of-a-one-row-array",
        """
        from settings import ROW

        @njit
        def f():
            return ROW.strides

        show("f", f)
        """,
        "import numpy as np\n\nROW = np.arange(24).reshape(6, 4)[::2][:1]\n",
        ("::2", "::3"),
    ),
    _edit(
        "strides-of-an-empty-array",
        """
        from settings import ROWS

        @njit
        def f():
            return ROWS.strides, ROWS.shape

        show("f", f)
        """,
        "import numpy as np\n\nROWS = np.arange(24).reshape(6, 4)[::2][:0]\n",
        ("::2", "::3"),
    ),
    _edit(
        "strides-of-a-column-in-a-closure",
        """
        from settings import COLUMN

        def make(a):
            @njit
            def f(i):
                return a.strides[i], a.ndim
            return f

        show("f", make(COLUMN), 1)
        """,
        "import numpy as np\n\nCOLUMN = np.arange(24).reshape(4, 6)[:, ::2][:, :1].copy(order='K')[:, :1]\n"
        "COLUMN = np.lib.stride_tricks.as_strided(COLUMN, (4, 1), (8, 8))\n",
        ("(8, 8)", "(8, 80)"),
    ),
    _tagged("colours-in-a-type-s-name", 'super().__init__(name=f"Tag(#{text})")', "tag.name[5:-1]", rerun="same"),
    _tagged("colours-beside-another-field", 'self.width = 1; super().__init__(name=f"Tag(#{text})")', "tag.name[5:-1]"),
    _tagged("number-beside-another-field", 'self.width = 1; super().__init__(name=f"Tag 0x{text}")', "tag.name[6:]"),
    _tagged(
        "field-called-like-one-of-numba-s",
        'self.width = 1; self._depth = text; super().__init__(name="Tag")',
        "tag._depth",
        key="self._depth",
    ),
    _tagged(
        "field-with-the-start-of-numba-s",
        'self.width = 1; self._impl_keys_of = text; super().__init__(name="Tag")',
        "tag._impl_keys_of",
        key="self._impl_keys_of",
    ),
    _tagged(
        "field-in-a-slot",
        'self.width = 1; self.text = text; super().__init__(name="Tag")',
        "tag.text",
        key="self.text",
        slots='__slots__ = ("text",)',
        rerun="same",  # plain Python can't pickle such a type, so no entry can name it
    ),
    _edit(
        "colour-in-a-type-edited",
        """
        import settings

        @njit
        def f(tag):
            return settings.number(tag)

        show("f", f, settings.Tag(settings.COLOUR))
        """,
        _TAGGED.format(
            fields='self.width = 1; super().__init__(name=f"Tag(#{text})")',
            read="tag.name[5:-1]",
            key="self.name",
            slots="",
        )
        + "\n    COLOUR = 'ff0000'\n",
        ("ff0000", "00ff00"),
    ),
)
