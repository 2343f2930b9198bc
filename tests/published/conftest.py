"""What tests of published functions share."""

import pytest
from nbtest import published


@pytest.fixture(params=["image", "llvm"])
def way(request, monkeypatch, tmp_path_factory):
    """How nodes load what is published: with LLVM if the accumulator has no linker. Nodes see that it is so."""
    if request.param == "llvm":
        monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("no-linker")))
    monkeypatch.setattr(published, "way", request.param)
    return request.param
