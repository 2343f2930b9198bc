"""Numbers in a final module that are taken for addresses of this process."""

import pytest

from nbcache.glue.capture.addresses import has_bare

MODULES = {
    "  %1 = load i64, ptr inttoptr (i64 139872348160 to ptr), align 8": True,
    "  %1 = load i64, i64* inttoptr (i64 139872348160 to i64*), align 8": True,
    "  store ptr inttoptr (i64 -1 to ptr), ptr %x": False,
    "  store ptr inttoptr (i64 8 to ptr), ptr %x": False,
    "  %1 = inttoptr i64 %0 to ptr": False,
    "  %1 = add i64 %0, 139872348160": False,
}


@pytest.mark.parametrize("line", MODULES)
def test_what_is_taken_for_an_address(line):
    assert has_bare(f"define i64 @f() {{\n{line}\n}}\n") is MODULES[line]
