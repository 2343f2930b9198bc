"""Runners of CI services, as far as our workflow files use them: what a step sees, when it runs, and which cache it gets.

GitHub's rules: an expression is ``${{ }}`` or an ``if``; a pull request from a fork has no secrets and no variables; a
cache is kept under a key once, found by key or by the newest that begins with a prefix, and seen by its own branch and by
those that go into it; ``shell: bash`` is ``bash --noprofile --norc -eo pipefail``, a step without a shell ``bash -e``.
GitLab's: all lines of ``before_script`` and ``script`` run in one shell; a protected variable is for protected branches; a
cache is that of protected branches or that of all others, unless it says ``unprotect``; everybody may write the project's
directory.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nbtest import proc

MAIN = "refs/heads/main"
_WORD = re.compile(r"'(?:[^']|'')*'|==|!=|&&|\|\||[\w.\-]+")


@dataclass
class Caches:
    """What a service keeps: (scope, key) to the content of a file, the newest last."""

    kept: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def find(self, scopes: list[str], key: str, prefixes: list[str]) -> bytes | None:
        for scope in scopes:
            if (scope, key) in self.kept:
                return self.kept[scope, key]
            for prefix in prefixes:
                found = [name for name in self.kept if name[0] == scope and name[1].startswith(prefix)]
                if found:
                    return self.kept[found[-1]]
        return None


@dataclass
class Ran:
    """What became of a job."""

    passed: bool
    log: str
    steps: int = 0


class Machine:
    """A runner that has nothing but the project, Python and nbcache; pip installs nothing and notes what it was asked."""

    def __init__(self, folder: Path, python: str, project: dict[str, str]) -> None:
        self.folder, self.workspace = folder, folder / "project"
        for each in (self.workspace, folder / "bin", folder / "tmp", folder / "temp"):
            each.mkdir(parents=True)
        (folder / "tmp").chmod(0o1777)
        for name, text in project.items():
            (self.workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (self.workspace / name).write_text(text)
        self._command("python", f'[ "$2" = pip ] && {{ echo "$@" >> {folder}/pip; exit; }}; exec {python} "$@"')
        self._command("nbcache", f'exec {python} -m nbcache "$@"')

    def _command(self, name: str, line: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def bash(self, script: str, env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        home = {"PATH": path, "HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp")}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", *options, "-c", script], cwd=self.workspace, check=False, text=True,
            env={**proc.environment(None, env), **home}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


class GitHub:
    """A repository there: its secrets, its caches, and the action that `OWNER/nbcache` is."""

    def __init__(self, action: Path, secrets: dict[str, str]) -> None:
        self.action, self.secrets, self.caches, self.runs = action, secrets, Caches(), 0

    def run(self, workflow: Path, job: str, machine: Machine, ref: str = MAIN, *, fork: bool = False) -> Ran:
        """Run a job for a push to *ref*, or for a pull request, which is what all but main is."""
        self.runs += 1
        contexts: dict[str, Any] = {
            "github": {
                "ref": ref,
                "run_id": str(self.runs),
                "run_attempt": "1",
                "action_path": str(self.action.parent),
            },
            "runner": {"os": "Linux", "arch": "X64", "temp": str(machine.folder / "temp")},
            "secrets": {} if fork else self.secrets,
            "vars": {},
        }
        found = yaml.safe_load(workflow.read_text(encoding="utf-8"))
        env = {**found.get("env", {}), **found["jobs"][job].get("env", {})}
        ran = Ran(True, "")
        self._steps(found["jobs"][job]["steps"], contexts, env, machine, ran)
        return ran

    def _steps(self, steps: list[Any], contexts: Any, env: dict[str, str], machine: Machine, ran: Ran) -> None:
        contexts = {**contexts, "steps": {}}
        for step in steps:
            condition = step.get("if", "success()")
            if not ran.passed or not (condition == "success()" or _value(condition, contexts)):
                continue
            given = {name: str(_filled(text, contexts)) for name, text in step.get("with", {}).items()}
            if "uses" in step:
                self._use(step["uses"].partition("@")[0], given, contexts, env, machine, ran)
                continue
            if "shell" not in step and "inputs" in contexts:
                raise AssertionError("a step of a composite action has to name its shell")
            own = {name: str(_filled(text, contexts)) for name, text in step.get("env", {}).items()}
            files = {name: machine.folder / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT")}
            for path in files.values():
                path.write_text("")
            options = ("-eo", "pipefail") if step.get("shell") == "bash" else ("-e",)
            done = machine.bash(
                _filled(step["run"], contexts), {**env, **own, **{name: str(path) for name, path in files.items()}},
                *options,
            )  # fmt: skip
            ran.log += done.stdout
            ran.steps += 1
            ran.passed = done.returncode == 0 or bool(step.get("continue-on-error"))
            env.update(line.split("=", 1) for line in files["GITHUB_ENV"].read_text().splitlines())
            outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
            contexts["steps"][step.get("id", "")] = {"outputs": outputs}

    def _use(self, name: str, given: dict[str, str], contexts: Any, env: Any, machine: Machine, ran: Ran) -> None:
        ref = contexts["github"]["ref"]
        if name == "OWNER/nbcache":
            action = yaml.safe_load(self.action.read_text(encoding="utf-8"))
            assert set(given) <= set(action["inputs"]), given
            inputs = {key: given.get(key, each.get("default", "")) for key, each in action["inputs"].items()}
            # A composite action sees no secrets but what it is given.
            inner = {key: value for key, value in contexts.items() if key not in {"secrets", "vars"}}
            self._steps(action["runs"]["steps"], {**inner, "inputs": inputs}, env, machine, ran)
        elif name == "actions/cache/restore":
            found = self.caches.find([ref, MAIN], given["key"], given.get("restore-keys", "").split())
            if found is not None:
                (machine.workspace / given["path"]).write_bytes(found)
        elif name == "actions/cache/save":
            assert (ref, given["key"]) not in self.caches.kept, "a key is kept once"
            self.caches.kept[ref, given["key"]] = (machine.workspace / given["path"]).read_bytes()
        else:
            assert name in {"actions/checkout", "actions/setup-python"}, name


def _filled(text: Any, contexts: Any) -> Any:
    if not isinstance(text, str):
        return text
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(_value(found[1], contexts)), text)


def _value(expression: str, contexts: Any) -> Any:
    """Evaluate names, texts, ``==``, ``!=``, ``&&`` and ``||``."""
    words = _WORD.findall(expression)
    assert "".join(words) == expression.replace(" ", ""), expression
    spelt = {"==": "==", "!=": "!=", "&&": " and ", "||": " or "}
    return eval("".join(spelt.get(word) or repr(_operand(word, contexts)) for word in words))


def _operand(word: str, contexts: Any) -> Any:
    if word.startswith("'"):
        return word[1:-1].replace("''", "'")
    found = contexts
    for part in word.split("."):
        found = found.get(part, "") if isinstance(found, dict) else ""
    return found


class GitLab:
    """A project there: variables that are files, for protected branches alone, and caches."""

    def __init__(self, protected: dict[str, str]) -> None:
        self.protected, self.caches = protected, Caches()

    def run(self, pipeline: Path, job: str, machine: Machine, branch: str = "main") -> Ran:
        """Run a job for a push to *branch*; main is protected."""
        text = pipeline.read_text(encoding="utf-8")
        found = yaml.safe_load(text)
        merged = {**found.get(found[job].get("extends", ""), {}), **found[job]}
        inherited = found.get(found[job].get("extends", ""), {}).get("variables", {})
        env = {**found["variables"], **inherited, **found[job].get("variables", {})}
        env |= {"CI_COMMIT_BRANCH": branch, "CI_DEFAULT_BRANCH": "main"}
        for folder, _, _ in os.walk(machine.workspace):
            os.chmod(folder, 0o777)
        if branch == "main":
            for name, content in self.protected.items():
                path = machine.folder / "variables" / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(content)
                path.chmod(0o666)
                env[name] = str(path)
        cache = merged["cache"]
        scope = "all" if cache.get("unprotect") else "protected" if branch == "main" else "others"
        (path,) = cache["paths"]
        there = self.caches.find([scope], cache["key"], [])
        if there is not None:
            (machine.workspace / path).write_bytes(there)
        done = machine.bash("\n".join([*merged["before_script"], *merged["script"]]), env, "-eo", "pipefail")
        if done.returncode == 0 and "push" in cache["policy"] and (machine.workspace / path).exists():
            self.caches.kept[scope, cache["key"]] = (machine.workspace / path).read_bytes()
        return Ran(done.returncode == 0, done.stdout, 1)


def forget(machine: Machine) -> None:
    """Remove what a runner had."""
    shutil.rmtree(machine.folder, ignore_errors=True)
