"""What identifies numba-cuda and NVIDIA's toolkit is read fast, and is what it would be if it were read plainly."""

import os
import subprocess
import sys

from nbtest.kernels import needs_numba_cuda

pytestmark = needs_numba_cuda

PROGRAM = """
import hashlib, importlib.metadata, os, sys
import numba_cuda
from numba.cuda import dispatcher
from nbcache import elf
from nbcache.glue.cuda import toolkit
from nbcache.glue.identity import ownership

def plainly(path):
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=16).hexdigest()

content = bytearray(os.urandom(3 * 65536 + 5))
for at in (0, 65535, 65536, len(content) - 1):
    content[at] ^= 1
    with open(f"file{at}", "wb") as file:
        file.write(content)
    assert toolkit.digest_of(f"file{at}") == plainly(f"file{at}")
assert toolkit.digest_of("none") == ""
for name in toolkit.LIBRARIES:
    assert elf.build_id(toolkit.library_path(name)) or plainly(toolkit.library_path(name))

# The distribution's version, though nobody looks for the distribution.
told = f"numba-cuda {importlib.metadata.version('numba-cuda')}"
assert ownership.module_edition("numba.cuda.dispatcher") == told
numba_cuda.__version__ = "0.0"  # of which nothing is installed
ownership._redirected_version.cache_clear()
assert ownership._redirected_version(ownership._redirected_root()) == told
"""


def test_what_identifies_the_toolkit(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, program], check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""})
