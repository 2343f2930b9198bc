"""What tests of published functions share."""

import pytest
from nbtest import published


@pytest.fixture(params=["image", "llvm"])
def way(request, monkeypatch, tmp_path_factory):
    """How nodes load what is published: with LLVM if the accumulator has no linker. Nodes see that it is so."""
    published.choose(request.param, monkeypatch, tmp_path_factory.mktemp("no-linker"))
    return request.param
