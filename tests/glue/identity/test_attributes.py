"""What anybody may set on an object, and what only its maker remembers there."""

import pytest
from numba.core.typing.templates import AttributeTemplate, FunctionTemplate

from nbcache.glue.identity.attributes import ignored_members, is_template

NUMBA_CUDAS = type("FunctionTemplate", (), {"__module__": "numba.cuda.typing.templates"})
NAMESAKE = type("FunctionTemplate", (), {"__module__": "somebodys"})


@pytest.mark.parametrize("base", [FunctionTemplate, AttributeTemplate, NUMBA_CUDAS])
def test_what_a_template_remembers_says_nothing_about_it(base):
    template = type("Mine", (base,), {})
    assert is_template(template)
    assert "_overload_cache" in ignored_members(template)


@pytest.mark.parametrize("base", [object, NAMESAKE])
def test_what_is_called_so_by_others_counts(base):
    assert not is_template(type("Mine", (base,), {}))
    assert "_overload_cache" not in ignored_members(type("Mine", (base,), {}))
