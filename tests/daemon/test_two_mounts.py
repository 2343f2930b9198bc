"""Two mounts of one directory on a filesystem whose locks and events don't cross: sshfs, each over a connection of its own.

Needs root, /dev/fuse, and Debian's packages sshfs and openssh-server; the server is this test's own and listens on
loopback only.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from contextlib import contextmanager

import pytest
from nbtest import daemons, proc, programs, usage

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.getuid() != 0 or not os.path.exists("/dev/fuse"), reason="needs root and /dev/fuse"),
    pytest.mark.skipif(shutil.which("sshfs") is None, reason="needs the package sshfs"),
    pytest.mark.skipif(shutil.which("sshd", path="/usr/sbin") is None, reason="needs the package openssh-server"),
]
CLIENTS, SIGNATURES = 16, 20


@contextmanager
def server(folder):
    """Our own sshd on a free port of loopback; yields the options for a client."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        f"PidFile {folder}/pid\nPermitRootLogin yes\nStrictModes no\nUsePAM no\nSubsystem sftp internal-sftp\n"
    )
    os.makedirs("/run/sshd", exist_ok=True)
    with (folder / "sshd.log").open("w") as log:
        process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    try:
        daemons.wait_for(lambda: "listening" in (folder / "sshd.log").read_text())
        yield f"-oport={port},IdentityFile={folder}/user,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def mounted(options, source, where):
    """One mount, so that others may enter it and owners are seen as they are."""
    where.mkdir()
    target = f"{getpass.getuser()}@127.0.0.1:{source}"
    subprocess.run(["sshfs", target, where, options, "-oallow_other,default_permissions,LogLevel=ERROR"], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", where], check=False)


def test_two_daemons_and_sixteen_clients(place, capsys):
    (place / "work.py").write_text(programs.functions(SIGNATURES))
    main = place / "main.py"
    main.write_text(programs.caller("work", gate=True))
    go = place / "go"
    go.touch()
    expected = proc.run([main, go])
    assert expected.status == 0, expected.stderr
    go.unlink()
    (place / "shared").mkdir()
    with (
        server(place) as options,
        mounted(options, place / "shared", place / "left") as left,
        mounted(options, place / "shared", place / "right") as right,
    ):
        stores = [left / "store", right / "store"]
        kind = proc.run(["-m", "nbcache", "doctor"], left / "store").stdout
        assert "fuse.sshfs" in kind
        assert "lease files" in kind
        with (
            daemons.daemon(stores[0], "--workers", "1", name="left", logs=place) as one,
            daemons.daemon(stores[1], "--workers", "1", name="right", logs=place) as other,
        ):
            clients = [proc.start([main, go], stores[number % 2], daemons.WAITING) for number in range(CLIENTS)]
            for client in clients:
                assert client.stdout.readline() == "ready\n", client.stderr.read()
            go.touch()
            outcomes = [proc.finish(client, 900) for client in clients]
        assert [f"ready\n{outcome.stdout}" for outcome in outcomes] == [expected.stdout] * CLIENTS
        seen = usage.read(place / "shared/store")
        mine = seen.builds_in("work")
        assert len(mine) == SIGNATURES
        duplicates = mine.total() - SIGNATURES
        by_clients = sum("not built" in outcome.stderr or "no answer" in outcome.stderr for outcome in outcomes)
        with capsys.disabled():
            print(f"\n{CLIENTS} clients on two mounts, {SIGNATURES} signatures: {duplicates} built again")
        assert duplicates <= SIGNATURES // 4, "\n".join([one.log, other.log, *(each.stderr for each in outcomes)])
        assert not by_clients
        proc.verify(place / "shared/store")
