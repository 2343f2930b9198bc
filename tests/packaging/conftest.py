"""Wheels built from this checkout, and bare virtual environments to install them into."""

import sys

import pytest
from bare import ROOT, Environment, call


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Return a function that builds a target ("wheel", "sdist") from a source folder and returns the file."""
    pytest.importorskip("hatchling")

    def build(target, source=ROOT):
        folder = tmp_path_factory.mktemp(target)
        call(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder, cwd=source)
        (built,) = folder.iterdir()
        return built

    return build


@pytest.fixture(scope="session")
def wheel(build):
    """The wheel of this checkout."""
    return build("wheel")


@pytest.fixture
def environment(tmp_path):
    """A bare virtual environment."""
    return Environment(tmp_path / "environment")


@pytest.fixture(scope="session")
def installed(tmp_path_factory, wheel):
    """A virtual environment with the wheel in it and nothing else, which nobody changes."""
    environment = Environment(tmp_path_factory.mktemp("installed") / "environment")
    environment.install(wheel)
    return environment


@pytest.fixture
def own(environment, wheel):
    """The same for a test that changes it."""
    environment.install(wheel)
    return environment
