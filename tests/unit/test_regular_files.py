"""Files that settings name, in directories where others may put something of that name."""

import errno
import os

import pytest

from nbcache.regular_files import open_to_append


@pytest.fixture
def shared(place):
    folder = place / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    (place / "file").write_text("before\n")
    (folder / "log").symlink_to(place / "file")
    return folder


def append(path):
    fd = open_to_append(str(path), 0o600)
    os.write(fd, b"a line\n")
    os.close(fd)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_a_stranger_s_link_is_not_followed(shared):
    os.chown(shared / "log", 4321, 4321, follow_symlinks=False)
    with pytest.raises(OSError, match="log") as raised:
        append(shared / "log")
    assert raised.value.errno in {errno.ELOOP, errno.EACCES}
    assert (shared.parent / "file").read_text() == "before\n"


def test_one_s_own_link_is(shared):
    append(shared / "log")
    assert (shared.parent / "file").read_text() == "before\na line\n"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
def test_who_owns_a_directory_says_what_is_in_it(shared):
    os.chown(shared / "log", 4321, 4321, follow_symlinks=False)
    shared.chmod(0o755)
    append(shared / "log")
    assert (shared.parent / "file").read_text() == "before\na line\n"


def test_a_file_with_a_second_name_is_not_written_where_others_may_have_given_it_that(shared):
    """`fs.protected_hardlinks` forbids others to do that, and isn't set everywhere."""
    os.link(shared.parent / "file", shared / "list")
    with pytest.raises(OSError, match="second name"):
        append(shared / "list")
    assert (shared.parent / "file").read_text() == "before\n"
    shared.chmod(0o755)
    append(shared / "list")
    assert (shared.parent / "file").read_text() == "before\na line\n"
