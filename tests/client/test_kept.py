"""Files that stay open while a program does with descriptors what it likes."""

import errno
import os

import pytest

from nbcache.client.kept import KeptFile

FLAGS = os.O_RDWR | os.O_CREAT


@pytest.fixture
def kept(tmp_path):
    file = KeptFile(str(tmp_path / "kept"), FLAGS, 0o600)
    yield file
    file.close()


def test_it_is_out_of_the_way_and_not_inherited(kept):
    assert kept.fd() >= 500
    assert not os.get_inheritable(kept.fd())
    os.write(kept.fd(), b"ours")
    assert kept.status().st_size == 4


@pytest.mark.parametrize("theirs", [False, True])
def test_what_a_program_closed_is_not_used_and_what_it_opened_instead_is_left_alone(kept, tmp_path, theirs):
    number = kept.fd()
    os.close(number)
    if theirs:
        with open(tmp_path / "theirs", "wb") as file:
            os.dup2(file.fileno(), number)
    for use in (kept.fd, kept.status):
        with pytest.raises(OSError) as raised:
            use()
        assert raised.value.errno == errno.EBADF
    kept.close()
    if theirs:
        os.write(number, b"theirs")
        os.close(number)
        assert (tmp_path / "theirs").read_bytes() == b"theirs"


def test_what_can_not_be_opened_raises_and_leaves_nothing_open(tmp_path):
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        KeptFile(str(tmp_path / "none" / "kept"), FLAGS, 0o600)
    assert os.listdir("/proc/self/fd") == before
