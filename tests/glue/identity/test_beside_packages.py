"""Ordinary functions beside packages that nobody identifies are found. `pip install pandas pydantic sqlalchemy torch`; each
test runs where its package is installed."""

import pytest

pytestmark = pytest.mark.long

PANDAS = """
import enum, typing
import pandas as pd
from numba import objmode

DF = pd.DataFrame({"a": np.arange(5.0)})

class Color(enum.IntEnum):
    RED = 1
    def frame(self):
        return pd.DataFrame({"a": [self.value]})

class Context(typing.NamedTuple):
    shape: typing.Tuple[int, int]
    close: typing.Union[np.ndarray, pd.Series, pd.DataFrame]

@njit
def f(context):
    with objmode(y="f8"):
        y = float(DF["a"].iloc[2] + pd.Series([1.0, 2.0]).mean())
    return context.close.sum() + context.shape[0] + Color.RED.value + y

print(f(Context((2, 3), np.ones(3))), Events.seen)
"""
PYDANTIC = """
import enum
import pydantic
from numba import objmode

class Kind(enum.IntEnum):
    X = 1
    def model(self):
        return Settings(kind=self)

class Settings(pydantic.BaseModel):
    kind: Kind = Kind.X
    scale: float = 9.5

S = Settings()

@njit
def f(kind):
    with objmode(y="f8"):
        y = S.scale
    return y if kind == Kind.X else 0.0

print(f(S.kind), Events.seen)
"""
SQLALCHEMY = """
import enum
import sqlalchemy as sa
from numba import objmode

ENGINE = sa.create_engine("sqlite://")

class Status(enum.Enum):
    NEW = 1
    def clause(self):
        return sa.text(self.name)

@njit
def f(status):
    with objmode(y="f8"):
        y = float(ENGINE.connect().execute(sa.text("select 8.5")).scalar())
    return y + status.value

print(f(Status.NEW), Events.seen)
"""
TORCH = """
import typing
import torch
from numba import objmode

W = torch.ones(2, dtype=torch.float64)

class Batch(typing.NamedTuple):
    x: np.ndarray
    grad: typing.Optional[torch.Tensor] = None
    def tensor(self):
        return torch.from_numpy(self.x)

@njit
def f(batch):
    x = batch.x
    with objmode(y="f8"):
        y = float(torch.from_numpy(x) @ W)
    return y + x.sum()

print(f(Batch(np.full(2, 2.375))), Events.seen)
"""


@pytest.mark.parametrize(
    ("package", "program"),
    [("pandas", PANDAS), ("pydantic", PYDANTIC), ("sqlalchemy", SQLALCHEMY), ("torch", TORCH)],
)
def test_functions_beside_a_package_are_found(run, package, program):
    pytest.importorskip(package)
    assert run(program)[0].split()[:2] == ["9.5", "['f',"]
    assert run(program)[0] == "9.5 []\n"
