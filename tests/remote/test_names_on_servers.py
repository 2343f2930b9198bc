"""Published names on real servers whose objects somebody else changes: refused with one line, and nothing comes."""

import json
import textwrap

import pytest
from nbtest import remotes
from nbtest.published import OF_FOUR_KINDS, accumulator, node

from nbcache.remote import objects, publications, storage
from nbcache.secret import Secret
from nbcache.store import publication

MODULE = "import numpy as np\nfrom numba import cfunc, njit, vectorize\nTABLE = np.arange(5.0)\n" + OF_FOUR_KINDS
NAMED, OTHER = map(publications.name_of, ("number", "other"))
DAMAGED_FILE = "one of its files is damaged"
ATTACKED = """
import json, pathlib, nbcache.errors
from nbcache.remote import storage
from nbcache.secret import Secret
server = storage.opened(Secret(ADDRESS))
for name, right, wrong, why in json.loads(pathlib.Path("attacks").read_text()):
    server.put(name, bytes.fromhex(wrong))
    try:
        raise SystemExit(f"{why}: {nbcache.load('number')}")
    except nbcache.errors.PublicationError as error:
        assert "\\n" not in str(error) and str(error).endswith(why), (why, error)
    assert nbcache.names() == [], why
    server.put(name, bytes.fromhex(right))
assert nbcache.load("number")(3.0) == 9.0
"""
NEWER = """
from nbcache.published import names_in_tiers
from nbcache.remote import storage
from nbcache.secret import Secret
names_in_tiers.AGAIN_SECONDS = 0.0
assert nbcache.load("number")(3.0) == 1.5
# What the server had before.
storage.opened(Secret(ADDRESS)).put(NAME, bytes.fromhex(DATA))
assert nbcache.load("number")(3.0) == 1.5 and nbcache.load("other")(3.0) == 1.5
"""


@pytest.fixture(params=["http", "s3"])
def address(request, tmp_path):
    """The address of a server to which anybody may write who can reach it."""
    with remotes.SERVERS[request.param](tmp_path) as (found, _process):
        yield found


def attacks(server):
    """Yield an object's name, what it is, what it is to be instead, and what a node says of that."""
    files = publication.decode(server.get(NAMED)).files
    parts = [publications.part_of(each) for each in files]
    yield NAMED, server.get(NAMED), server.get(OTHER), publications.OTHER_NAME
    yield parts[0], server.get(parts[0]), server.get(parts[-1]), DAMAGED_FILE
    # In the order in which they are fetched: what came as it is stays.
    for name, why in ((NAMED, objects.DAMAGED), *((each, DAMAGED_FILE) for each in parts)):
        data = server.get(name)
        for at in (0, len(data) // 2, len(data) - 1):
            yield name, data, data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :], why
            yield name, data, data[: at or 1], why
        yield name, data, data + b"\n", why


@pytest.mark.every(2)
def test_what_a_server_gives_instead_is_refused(fleet, address, tmp_path):
    (tmp_path / "functions.py").write_text(textwrap.dedent(MODULE))
    maker, user = fleet.host("maker", address), fleet.host("node", address, signs=False)
    server = storage.opened(Secret(address))

    def publish(function):
        program = f"import functions\nnbcache.publish('number', functions.{function})\n"
        accumulator(maker["NBCACHE_DIR"], program + "nbcache.publish('other', functions.half)", tmp_path, **maker)

    def load(program, **values):
        for name, value in {"ADDRESS": address, **values}.items():
            program = program.replace(name, repr(value))
        node(user["NBCACHE_DIR"], program, tmp_path, **user)

    publish("squared")
    tried = [(name, right.hex(), wrong.hex(), why) for name, right, wrong, why in attacks(server)]
    assert len(tried) > 20
    (tmp_path / "attacks").write_text(json.dumps(tried))
    load(ATTACKED)
    before = server.get(NAMED)
    publish("half")
    assert server.get(NAMED) != before
    load(NEWER, NAME=NAMED, DATA=before.hex())
