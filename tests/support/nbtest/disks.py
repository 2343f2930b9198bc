"""Disks small enough to be filled, and one that doesn't answer."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def small_disk(point: Path, size: str, *options: str) -> Iterator[Path]:
    """Mount a filesystem of ``size`` (as tmpfs reads it) at ``point``, which is made; skip the test where one can't.

    ``options`` are mount's, such as ``noexec``.
    """
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root to mount a filesystem")
    point.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", ",".join((f"size={size},mode=755", *options)), "tmpfs", str(point)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("can't mount a tmpfs")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)


@contextmanager
def failing_disk(point: Path) -> Iterator[tuple[Path, Path]]:
    """Mount a disk of 64 MB at ``point``; yield it, and what makes it read-only at once when something is written there.

    It is ext4 on a loop device, which the kernel may be told to find an error on. Skips the test where one can't.
    """
    if os.geteuid() != 0 or shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        pytest.skip("needs root and mkfs.ext4")
    point.mkdir()
    image = point.with_suffix(".img")
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    if subprocess.run(
        ["mount", "-o", "loop,errors=remount-ro", image, point], capture_output=True, check=False
    ).returncode:
        pytest.skip("can't mount a loop device")
    try:
        number = point.stat().st_dev
        device = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
        trigger = Path(f"/sys/fs/ext4/{os.path.basename(device)}/trigger_fs_error")
        if not trigger.exists():
            pytest.skip("this kernel's ext4 finds no errors on command")
        yield point, trigger
    finally:
        subprocess.run(["umount", "-l", point], check=True)


@contextmanager
def hanging_disk(point: Path) -> Iterator[Path]:
    """Mount a filesystem at ``point``, which is made, that answers nothing until this ends; skip the test where one can't.

    It is FUSE's, with nobody behind it, so whoever waits for it can be killed.
    """
    try:
        server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"needs FUSE: {error}")
    point.mkdir()
    libc = ctypes.CDLL(None)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0,allow_other"
    try:
        if libc.mount(b"fuse", os.fsencode(point), b"fuse", 0, options.encode()):
            pytest.skip("can't mount a FUSE filesystem")
        yield point
    finally:
        os.close(server)
        libc.umount2(os.fsencode(point), 2)
