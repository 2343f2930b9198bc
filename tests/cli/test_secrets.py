"""No secret of a setting is shown by anything, well or badly written: every command that the parser has is run with them.

Each secret has a mark in it, in every piece into which a careless reader could cut it. What is said and whatever is
written anywhere (logs, usage records, reports, sockets' names, the store) must not have that mark.
"""

import argparse
import copy
import itertools
import json
import os
import pickle
import signal
import sys
import time
from pathlib import Path

import pytest
from nbtest import proc

from nbcache import config, setting_syntax
from nbcache.cli import main as command_line
from nbcache.cli import stats as show
from nbcache.secret import Secret, revealed

MARK = "hush"
SEED = MARK * 10 + MARK[:3] + "="
"""A key as base64, public or secret: nobody can tell."""
WELL = [
    {"remote": f"redis://:{MARK}@127.0.0.1:1", "trusted_keys": f"ci:{SEED}"},
    {"remote": f"redis://{MARK}:{MARK}@{MARK}:{MARK}%2f@127.0.0.1:1/0/x", "trusted_keys": f"ci:{SEED}:2099-01-01"},
    {
        "remote": f"http://{MARK}@127.0.0.1:1/x?read-only&password={MARK}?{MARK}&{MARK}={MARK}",
        "trusted_keys": "unsigned",
    },
    {
        "remote": f"s3://bucket/x?region=x&endpoint=http://127.0.0.1:1/{MARK}&secret_access_key={MARK}",
        "trusted_keys": "unsigned",
    },
    {
        "remote": f"s3://bucket/x?region=x&endpoint=http://127.0.0.1:{MARK}&access_key_id={MARK}",
        "trusted_keys": "unsigned",
    },
    {"remote": f"redis://127.0.0.1:1?db={MARK}&endpoint={MARK}:1/{MARK}", "trusted_keys": f"unsigned,ci:{SEED}"},
]
BADLY = [
    {"remote": f"redis://:{MARK}/{MARK}@127.0.0.1", "signing_key": f"nbcache-secret-key 1 ci:{SEED}"},
    {"remote": f"redis://user:12/{MARK}@127.0.0.1:1", "signing_key": f"ci:{SEED}", "trusted_keys": "unsigned"},
    {
        "remote": f"http://u:{MARK}?{MARK}@127.0.0.1",
        "signing_key": SEED,
        "trusted_keys": f"nbcache-secret-key 1 ci:{SEED}",
    },
    {"remote": f"http://u:p@{MARK}?{MARK}@127.0.0.1", "signing_key": f"/{MARK}/{MARK}", "trusted_keys": SEED},
    {"remote": f"redis://:{MARK}@127.0.0.1:{MARK}", "signing_key": f"{MARK}/{MARK}", "trusted_keys": f"ci:{MARK}"},
    {"remote": f"redis://:{MARK}", "signing_key": f"ci:{MARK}", "trusted_keys": f"ci:{SEED}:{MARK}"},
    {"remote": f"s3://bucket?secret_access_key={MARK}&{MARK}", "trusted_keys": f"{MARK} {MARK}:{SEED}"},
    {"remote": f"s3://bucket?{MARK}", "trusted_keys": f"unsigned:{SEED}"},
    {"remote": f"s3://{MARK}:12@bucket/{MARK}@x?password", "signing_key": f"{MARK}\x1b[2J{MARK}"},
    {"remote": f"redis://:{MARK} {MARK}@127.0.0.1", "signing_key": f"redis://:{MARK}@host"},
    {"remote": f"redis://:{MARK}#{MARK}@127.0.0.1", "signing_key": f"~{MARK}/{MARK}"},
    {"remote": f"ftp://:{MARK}@127.0.0.1 http://[{MARK}@127.0.0.1/"},
    {"remote": f"https://u:{MARK}\u2100{MARK}@127.0.0.1/"},
]
PROGRAM = """
from numba import njit

@njit
def f(x):
    return x + 1

print(f(1))
"""


def as_file(settings):
    """The settings as nbcache.toml has them."""
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())


def as_environment(settings):
    return {f"NBCACHE_{name.upper()}": value for name, value in settings.items()}


class Host:
    """A home, a store and a folder for everything else that is written, and who is run there."""

    def __init__(self, folder, settings, *, by_file):
        self.folder = folder
        for each in ("home/.config/nbcache", "run", "state", "tmp", "here"):
            (folder / each).mkdir(mode=0o700, parents=True)
        self.given = folder / "home/.config/nbcache/nbcache.toml"
        if by_file:
            self.given.write_text(as_file(settings))
        self.store = folder / "store"
        names = {"HOME": "home", "XDG_RUNTIME_DIR": "run", "STATE_DIRECTORY": "state", "TMPDIR": "tmp"}
        self.environment = {
            **{name: str(folder / each) for name, each in names.items()},
            "NBCACHE_DIR": str(self.store),
            "NBCACHE_LOG": "debug",
            "NBCACHE_LOG_FILE": str(folder / "log"),
            "NBCACHE_RECORD": str(folder / "here/list"),
            "NBCACHE_COUNT": str(folder / "count"),
            "AWS_SECRET_ACCESS_KEY": MARK,
            "HTTPS_PROXY": f"http://{MARK}:{MARK}@127.0.0.1:1",
            **({} if by_file else as_environment(settings)),
        }
        key = folder / "given.key"
        if settings in WELL:
            key.touch(0o600)
            key.write_text(f"nbcache-secret-key 1 ci:{SEED}\n")
            self.environment["NBCACHE_SIGNING_KEY"] = str(key)
        self.given = {self.given, key}
        self.program = folder / "here/program.py"
        self.program.write_text(PROGRAM)
        self.said = folder / "said"
        self.seen = b""

    def run_program(self):
        outcome = proc.run([self.program], None, {"NBTEST_PATIENT": "1", **self.environment}, cwd=self.folder / "here")
        assert outcome.status == 0, outcome.stderr
        with self.said.open("a") as file:
            file.write(outcome.stdout + outcome.stderr)

    def command(self, argv):
        """Run a command in a fork of this process; a daemon gets SIGTERM as soon as it serves."""
        pid = os.fork()
        if pid == 0:
            status = 3
            try:
                fd = os.open(self.said, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(fd, 1)
                os.dup2(fd, 2)
                sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
                os.environ.clear()
                os.environ.update(proc.environment(None, self.environment))
                os.chdir(self.folder / "here")
                status = command_line.main(argv)
            except SystemExit as ending:
                status = ending.code
            except BaseException as error:
                print("a traceback", type(error), error, file=sys.stderr)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status if type(status) is int else 1)
        asked = False
        while True:
            ended, raw = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(raw)
            self.seen += command_lines(str(self.folder))
            if not asked and list(self.store.glob("v1/daemon/*.json")):
                os.kill(pid, signal.SIGTERM)
                asked = True
            time.sleep(0.02)

    def leaks(self):
        """Where the mark was seen."""
        places = [("the arguments of a process", self.seen)] if MARK.encode() in self.seen.lower() else []
        for path in self.folder.rglob("*"):
            if MARK in str(path.relative_to(self.folder)).lower():
                places.append((path, b"its name"))
            if path.is_file() and path not in self.given:
                lines = path.read_bytes().lower().splitlines()
                places += [(str(path), line) for line in lines if MARK.encode() in line]
        return places


def command_lines(folder):
    """The arguments of all processes that have to do with a folder, by their arguments or environment."""
    found = b""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line, environment = (Path(f"/proc/{pid}/{each}").read_bytes() for each in ("cmdline", "environ"))
        except OSError:
            continue
        found += line if os.fsencode(folder) in line + environment else b""
    return found


def commands(host):
    """Every way in which each command of the parser can be called, roughly: its choices, and with and without --json."""
    words = [str(host.folder / "here/file"), "name"]
    (subparsers,) = [
        each for each in command_line.build_parser()._actions if isinstance(each, argparse._SubParsersAction)
    ]
    for name, parser in subparsers.choices.items():
        ways = [[]]
        for action in parser._actions:
            if action.option_strings:
                more = [[action.option_strings[0], words[0]]] if action.required else [[]]
            elif action.choices:
                more = [[each] for each in action.choices]
            elif action.nargs == argparse.REMAINDER:
                more = [
                    [words[0]],
                    ["--", sys.executable, "-c", "pass"],
                    [words[0], "--", sys.executable, host.program],
                ]
            else:
                more = (
                    [[], words[:1]]
                    if action.nargs in {"*", "?"}
                    else [words[:1], words]
                    if action.nargs == "+"
                    else [words[:1]]
                )
            ways = [way + each for way, each in itertools.product(ways, more)]
        if any("--json" in each.option_strings for each in parser._actions):
            ways.append(["--json", *ways[-1]])
        for way in ways:
            yield [name, *map(str, way)]


def cases():
    """Each row, every other one by a file."""
    return [pytest.param(row, at % 2 == 1, id=f"{at}") for at, row in enumerate([*WELL, *BADLY])]


@pytest.mark.long
@pytest.mark.parametrize(("settings", "by_file"), cases())
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_no_command_shows_a_secret_nor_writes_one_down(place, settings, by_file):
    host = Host(place, settings, by_file=by_file)
    host.run_program()
    for argv in commands(host):
        host.command(argv)
    host.command(["remote", "stop"])
    assert host.leaks() == []
    assert "a traceback" not in host.said.read_text()


@pytest.mark.parametrize("by_file", [False, True])
@pytest.mark.parametrize("settings", [*WELL, *BADLY], ids=lambda _: "")
def test_settings_show_no_secret_and_say_what_to_do(tmp_path, settings, by_file):
    environment = {"HOME": str(tmp_path)} if by_file else as_environment(settings)
    file = tmp_path / ".config/nbcache/nbcache.toml"
    file.parent.mkdir(parents=True)
    file.write_text(as_file(settings))
    loaded = config.load(environment)
    shown = [str(loaded), repr(loaded), f"{loaded.remote} {loaded.signing_key}", str(show.values_of(loaded))]
    assert not any(MARK in each.lower() for each in [*shown, *loaded.problems])
    refused = [name for name in settings if loaded.sources[name] == "default"]
    assert bool(refused) == (settings in BADLY)
    for name, problem in zip(sorted(refused), sorted(loaded.problems), strict=True):
        where = f"{name} in {file}" if by_file else f"NBCACHE_{name.upper()}"
        assert problem.startswith(f"{where}=… is not understood and ignored: ")
        assert problem.endswith(f"{setting_syntax.READERS[name][1]} is accepted")


def test_a_secret_is_shown_by_its_mask_alone_and_travels_only_when_it_is_revealed():
    secret = Secret("hush", lambda text: f"{len(text)} letters")
    assert (str(secret), repr([secret]), f"{secret!s:>10}", f"{secret:>10}") == (
        "4 letters",
        "[4 letters]",
        *[" 4 letters"] * 2,
    )
    assert str(Secret("hush")) == "***"
    assert secret == Secret("hush") and secret != Secret("other") and secret != "hush"
    assert len({secret, Secret("hush")}) == 1
    for travel in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError):
            travel(secret)
    assert revealed((secret, frozenset({2, 1}), None)) == ["hush", [1, 2], None]
