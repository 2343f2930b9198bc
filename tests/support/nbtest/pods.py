"""Pods without a cluster: the containers of a manifest, in order, as their users, with their mounts. Needs root.

What the kubelet does is done as it does it: an ``emptyDir`` is root's, with mode 2777 and the group of ``fsGroup``; a claim
has 2775, or 0775 with group 0, as on OpenShift; a secret is root's, readable for that group; ``subPath`` mounts a folder of
a volume and nothing above it. The root filesystem belongs to root, and is mounted read-only where the manifest says so.

Run as a program, in a mount namespace of its own: ``pods.py PLAN``, which is JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_NO_NEW_PRIVS = 38
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc", "/proc", "/dev", "/sys")


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


class Host:
    """A node: volumes that outlive pods, and a root filesystem for each container."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.folder = Path(plan["folder"])
        self.claims: dict[str, Path] = {}
        self.count = 0

    def volume(self, spec: dict[str, Any], pod: str) -> Path:
        """The folder that stands for a volume of a pod."""
        group, mode = self.plan["group"], 0o2777
        path = self.folder / f"{pod}-{spec['name']}"
        if "persistentVolumeClaim" in spec:
            path, mode = self.folder / "claim", self.plan["mode"]
        if not path.exists():
            path.mkdir()
            os.chown(path, 0, group)
            path.chmod(mode)
            if "secret" in spec:
                shutil.copy(self.plan["key"], path / "ci.key")
                os.chown(path / "ci.key", 0, group)
                (path / "ci.key").chmod(0o440)
        return path

    def root(self, container: dict[str, Any], volumes: dict[str, Path]) -> Path:
        """The root filesystem of a container."""
        self.count += 1
        root = self.folder / f"root{self.count}"
        root.mkdir()
        mount("-t", "tmpfs", "-o", "mode=0755", "none", root)
        for path in (*SYSTEM, *self.plan["paths"]):
            if os.path.isdir(path):
                (root / path[1:]).mkdir(parents=True, exist_ok=True)
                mount("--rbind", path, root / path[1:])
        shutil.copytree(self.plan["app"], root / "app")
        (root / "opt/bin").mkdir(parents=True, exist_ok=True)
        for name, line in (("python", '"$@"'), ("nbcache", '-m nbcache "$@"')):
            (root / "opt/bin" / name).write_text(f"#!/bin/sh\nexec {self.plan['python']} {line}\n")
            (root / "opt/bin" / name).chmod(0o755)
        for each in container["volumeMounts"]:
            where = root / each["mountPath"][1:]
            where.mkdir(parents=True, exist_ok=True)
            mount("--bind", volumes[each["name"]] / each.get("subPath", ""), where)
            if each.get("readOnly"):
                mount("-o", "remount,bind,ro", where)
        if container["securityContext"]["readOnlyRootFilesystem"]:
            mount("-o", "remount,ro", root)
        return root

    def start(self, container: dict[str, Any], root: Path, command: list[str]) -> subprocess.Popen[str]:
        """Run a command in a container."""
        plan = self.plan
        env = {"PATH": "/opt/bin:/usr/bin:/bin", "PYTHONPATH": plan["pythonpath"], "PYTHONDONTWRITEBYTECODE": "1"}
        env |= plan["settings"] | {each["name"]: each["value"] for each in container.get("env", [])}

        def enter() -> None:
            os.chroot(root)
            os.chdir("/app")
            os.setgroups([plan["group"]])
            os.setgid(plan["gid"])
            os.setuid(plan["uid"])
            ctypes.CDLL(None).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)

        return subprocess.Popen(
            command, env=env, preexec_fn=enter, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self, container: dict[str, Any], root: Path, command: list[str]) -> str:
        """Run a command to its end; return what it said."""
        process = self.start(container, root, command)
        said, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"{container['name']}: {command} ended with {process.returncode}:\n{said}")
        return said


def run_pod(host: Host, name: str, pod: dict[str, Any], daemons: list[subprocess.Popen[str]]) -> str:
    """Run the containers of a pod; daemons go on. Return what the program said."""
    volumes = {each["name"]: host.volume(each, name) for each in pod["volumes"]}
    said = ""
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        root = host.root(container, volumes)
        command = container.get("command", host.plan["command"])
        if container["name"] != "daemon":
            said = host.run(container, root, command)
            continue
        daemons.append(host.start(container, root, command))
        deadline = time.monotonic() + 600
        while (
            host.start(container, root, ["nbcache", "health", "--timeout", "60"]).wait() and time.monotonic() < deadline
        ):
            if daemons[-1].poll() is not None:
                raise SystemExit(f"the daemon ended:\n{daemons[-1].communicate()[0]}")
    return said


def main(plan: dict[str, Any]) -> None:
    """Run each pod once, and the last one, which has the program, twice; print what the program said."""
    host, daemons = Host(plan), list[subprocess.Popen[str]]()
    try:
        pods = plan["pods"]
        said = [run_pod(host, f"pod{number}", pod, daemons) for number, pod in enumerate([*pods, pods[-1]])]
        print(json.dumps(said))
    finally:
        for each in daemons:
            each.terminate()
            each.wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
