"""Settings: every value, every source, and that nothing unreadable gets in the way."""

import os
import pickle
import pwd
import shutil
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbtest import proc
from nbtest.proc import ROOT

from nbcache import config, environ, settings_files
from nbcache.config import Settings, load

needs_toml = pytest.mark.skipif(settings_files.toml_parser() is None, reason="no TOML parser")


@pytest.fixture(autouse=True)
def no_system_file(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "SYSTEM_FILE", str(tmp_path / "etc" / "nbcache.toml"))


def read(**variables):
    return load({f"NBCACHE_{name}": value for name, value in variables.items()})


def value(name, text):
    loaded = load({f"NBCACHE_{name.upper()}": text})
    assert loaded.problems == ()
    assert loaded.sources[name] == f"environment NBCACHE_{name.upper()}"
    return getattr(loaded, name)


def test_defaults():
    loaded = load({})
    assert loaded.problems == ()
    assert set(loaded.sources) == set(config.NAMES)
    assert set(loaded.sources.values()) == {"default"}
    assert loaded == Settings(sources=loaded.sources)
    assert (loaded.dir, loaded.on_miss, loaded.wait_seconds, loaded.max_size) == (None, "auto", 30.0, 5 * 1024**3)


def test_an_empty_variable_is_unset():
    assert read(DIR="", DISABLE=" ", MAX_SIZE="") == load({})


@pytest.mark.parametrize("name", ["disable", "readonly", "recache"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", True),
        ("TRUE", True),
        ("yes", True),
        ("on", True),
        ("0", False),
        ("false", False),
        ("no", False),
        ("off", 0),
    ],
)
def test_flags(name, text, expected):
    assert value(name, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("123", 123),
        ("10B", 10),
        ("500M", 500_000_000),
        ("500MB", 500_000_000),
        ("5GiB", 5 << 30),
        ("5 GiB", 5 << 30),
        ("5Gi", 5 << 30),
        ("1.5k", 1500),
        ("2TiB", 2 << 40),
        (" 7kib ", 7168),
    ],
)
def test_sizes(text, expected):
    assert value("max_size", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("0", 0), ("30", 30), ("2.5", 2.5), ("30s", 30), ("500ms", 0.5), ("2m", 120), ("1 h", 3600)]
)
def test_times(text, expected):
    assert value("wait_seconds", text) == expected


def test_uids():
    assert value("trusted_uids", "1000, 1001,") == {1000, 1001}
    assert value("trusted_uids", "root,5") == {0, 5}


@needs_toml
def test_umask(tmp_path, user_file):
    assert value("umask", "022") == value("umask", "22") == 0o022
    write(user_file, 'umask = "077"')
    assert load_files(tmp_path).umask == 0o077
    # A number in TOML is decimal: nobody means 0o26 by it.
    write(user_file, "umask = 22")
    loaded = load_files(tmp_path)
    assert loaded.umask is None and len(loaded.problems) == 1


def test_names():
    assert value("on_miss", "WAIT") == "wait"
    assert value("log", "debug") == "DEBUG"


def test_paths_are_made_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert value("dir", "cache") == str(tmp_path / "cache")
    assert value("record", "~/warm.jsonl") == "/home/me/warm.jsonl"


def test_a_relative_path_in_a_deleted_directory(monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    loaded = read(DIR="cache")
    assert loaded.dir is None
    assert len(loaded.problems) == 1


BAD = {
    "DISABLE": ["2", "maybe", "yes please"],
    "ON_MISS": ["sometimes"],
    "WAIT_SECONDS": ["-1", "inf", "nan", "1e9", "2 days", "86401", "1_0", "٣", ".", "s"],
    "MAX_SIZE": ["-1", "5 apples", "1e3", "GiB", "1.2.3", "9999999999999T", "0x10", "i"],
    "TRUSTED_UIDS": ["-1", "no-such-user-here", "1;2", str(1 << 32)],
    "UMASK": ["22x", "0o22", "100", "9", "-1", "٣"],
    "LOG": ["loud"],
    "DIR": ["a\0b"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_an_unreadable_value_keeps_its_default_and_says_so(name, text):
    loaded = read(**{name: text})
    assert getattr(loaded, name.lower()) == getattr(Settings(), name.lower())
    assert loaded.sources[name.lower()] == "default"
    (problem,) = loaded.problems
    assert problem.startswith(f"NBCACHE_{name}={text!r} is not understood and ignored: ")
    assert problem.endswith(" is accepted")
    assert "\n" not in problem


@given(st.dictionaries(st.sampled_from(config.NAMES), st.text(max_size=20)))
def test_never_raises(variables):
    loaded = load({f"NBCACHE_{name.upper()}": text for name, text in variables.items()})
    assert isinstance(loaded, Settings)
    assert all("\n" not in problem for problem in loaded.problems)


def test_settings_can_be_pickled_and_are_frozen():
    loaded = read(DIR="/x")
    assert pickle.loads(pickle.dumps(loaded)) == loaded
    with pytest.raises(AttributeError):
        loaded.dir = "/y"


def test_misspelt_variables():
    assert config.unknown_variables({"NBCACHE_DIR": "/", "NBCACHE_MAXSIZE": "1", "HOME": "/"}) == ["NBCACHE_MAXSIZE"]


def test_the_process_environment_is_the_default(monkeypatch):
    monkeypatch.setenv("NBCACHE_ON_MISS", "compile")
    assert load().on_miss == "compile"


# Files


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.fixture
def user_file(tmp_path):
    return tmp_path / "xdg" / "nbcache" / "nbcache.toml"


def load_files(tmp_path, **variables):
    return load({"XDG_CONFIG_HOME": str(tmp_path / "xdg"), **variables})


def test_where_files_are_looked_for():
    assert config.files({}) == [config.SYSTEM_FILE]
    assert config.files({"HOME": "/h"}) == ["/h/.config/nbcache/nbcache.toml", config.SYSTEM_FILE]
    assert config.files({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == ["/x/nbcache/nbcache.toml", config.SYSTEM_FILE]
    assert config.files({"HOME": "/h", "XDG_CONFIG_HOME": "x"})[0] == "/h/.config/nbcache/nbcache.toml"
    assert config.files({"HOME": "h"}) == [config.SYSTEM_FILE]


@needs_toml
def test_the_stronger_source_wins(tmp_path, user_file):
    system = write(tmp_path / "etc" / "nbcache.toml", 'dir = "/system"\nmax_size = "1GiB"\nlog = "info"\n')
    user = write(user_file, 'dir = "/user"\nmax_size = 1000\ntrusted_uids = [5, "root"]\ndisable = true\n')
    loaded = load_files(tmp_path, NBCACHE_DIR="/environment")
    assert (loaded.dir, loaded.max_size, loaded.log) == ("/environment", 1000, "INFO")
    assert (loaded.trusted_uids, loaded.disable) == ({0, 5}, True)
    assert loaded.sources["dir"] == "environment NBCACHE_DIR"
    assert loaded.sources["max_size"] == f"file {user}"
    assert loaded.sources["log"] == f"file {system}"
    assert loaded.sources["record"] == "default"
    assert loaded.problems == ()


@needs_toml
def test_a_wrong_value_leaves_the_weaker_source(tmp_path, user_file):
    write(tmp_path / "etc" / "nbcache.toml", 'max_size = "1GiB"\n')
    user = write(user_file, "max_size = [1]\ndisable = 3\nwait_seconds = true\ncolour = 'red'\n")
    loaded = load_files(tmp_path, NBCACHE_ON_MISS="never")
    assert (loaded.max_size, loaded.on_miss) == (1 << 30, "auto")
    text = "\n".join(loaded.problems)
    assert f"{user}: 'colour' is not a setting" in text
    assert f"max_size in {user}=[1] is not understood" in text
    assert f"disable in {user}=3 is not understood" in text
    assert "NBCACHE_ON_MISS='never'" in text
    assert len(loaded.problems) == 5


@needs_toml
@pytest.mark.parametrize("text", [b"= 1", b"\xff\xfe", b"dir", b"a = " + b"[" * 5000, b"#" * ((1 << 20) + 1)])
def test_a_broken_file_is_ignored(tmp_path, user_file, text):
    user = write(user_file, text)
    loaded = load_files(tmp_path)
    (problem,) = loaded.problems
    assert problem.startswith(f"{user} is ignored: ")
    assert loaded.dir is None


def test_a_file_that_is_none(tmp_path, user_file):
    user_file.mkdir(parents=True)
    assert len(load_files(tmp_path).problems) == 1
    user_file.rmdir()
    os.mkfifo(user_file)
    assert load_files(tmp_path).problems == (f"{user_file} is ignored: it is not a regular file",)


def test_without_a_toml_parser_the_file_is_named(tmp_path, user_file, monkeypatch):
    user = write(user_file, 'dir = "/x"\n')
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", None)
    assert load_files(tmp_path).problems == (
        f"{user} is ignored: reading TOML needs Python 3.11, or the package tomli",
    )


def test_no_file_no_parser(tmp_path, monkeypatch):
    monkeypatch.setattr(settings_files, "toml_parser", pytest.fail)
    assert load_files(tmp_path).problems == ()


# Whose files, and whose environment

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: changes owners and ids")
STRANGER = 4321


@needs_toml
def test_a_file_that_others_may_write_sets_nothing(tmp_path, user_file):
    user = write(user_file, 'trusted_uids = [5]\nlog_file = "/x"\n')
    user_file.chmod(0o666)
    loaded = load_files(tmp_path)
    assert (loaded.trusted_uids, loaded.log_file) == (frozenset(), None)
    assert loaded.problems == (f"{user} is ignored: it is writable by others (mode 0666)",)


@needs_toml
def test_a_file_in_a_directory_that_others_may_write_sets_nothing(tmp_path, user_file):
    user = write(user_file, "trusted_uids = [5]\n")
    user_file.parent.parent.chmod(0o777)
    loaded = load_files(tmp_path)
    assert loaded.trusted_uids == frozenset()
    place = user_file.parent.parent
    assert loaded.problems == (f"{user} is ignored: it lies in {place}, which is writable by others (mode 0777)",)


@needs_toml
@root_only
@pytest.mark.parametrize("which", ["the user's", "the system's"])
def test_a_stranger_s_file_sets_nothing(tmp_path, user_file, which):
    """The file itself would have it trusted, and so would the environment: neither counts."""
    path = user_file if which == "the user's" else tmp_path / "etc" / "nbcache.toml"
    write(path, f'trusted_uids = [{STRANGER}]\nlog_file = "/x"\n')
    os.chown(path, STRANGER, STRANGER)
    loaded = load_files(tmp_path, NBCACHE_TRUSTED_UIDS=str(STRANGER))
    assert loaded.log_file is None
    assert loaded.sources["trusted_uids"] == "environment NBCACHE_TRUSTED_UIDS"
    assert loaded.problems == (f"{path} is ignored: it is owned by uid {STRANGER}, who isn't trusted",)


@needs_toml
@root_only
def test_a_home_of_somebody_else(tmp_path, user_file):
    write(user_file, 'log_file = "/x"\n')
    os.chown(user_file.parent.parent, STRANGER, STRANGER)
    loaded = load_files(tmp_path)
    assert loaded.log_file is None
    assert f"lies in {user_file.parent.parent}, which is owned by uid {STRANGER}" in loaded.problems[0]


@needs_toml
def test_a_link_to_a_file_of_one_s_own(tmp_path, user_file):
    kept = write(tmp_path / "dotfiles" / "nbcache.toml", "max_size = 1000\n")
    user_file.parent.mkdir(parents=True)
    user_file.symlink_to(kept)
    assert load_files(tmp_path).max_size == 1000
    user_file.parent.chmod(0o777)
    assert load_files(tmp_path).problems[0].startswith(f"{user_file} is ignored: it lies in {user_file.parent}, which")
    user_file.parent.chmod(0o755)
    (tmp_path / "dotfiles").chmod(0o777)
    assert load_files(tmp_path).problems[0].startswith(f"{user_file} is ignored: it lies in {tmp_path}/dotfiles, which")


SHOW = "from nbcache import config; s = config.load(); print(s.dir, s.max_size, sorted(s.trusted_uids))"
HEEDED = "/from/environment 1000 [5]"


def settings_of_a_process(tmp_path, *options, **more):
    """What a Python started with these options takes from an environment that sets everything."""
    write(tmp_path / "xdg" / "nbcache" / "nbcache.toml", "max_size = 1000\n")
    environ = {
        "NBCACHE_DIR": "/from/environment",
        "NBCACHE_TRUSTED_UIDS": "5",
        "XDG_CONFIG_HOME": str(tmp_path / "xdg"),
    }
    program = [sys.executable, *options, "-c", SHOW]
    done = subprocess.run(program, env=environ, cwd="/", capture_output=True, text=True, check=True, **more)
    assert done.stderr == ""
    return done.stdout.strip()


@needs_toml
@pytest.mark.parametrize("options", [(), ("-s",), ("-B",)])
def test_the_environment_counts(tmp_path, options):
    assert settings_of_a_process(tmp_path, *options) == HEEDED


@pytest.mark.parametrize("option", ["-I", "-E"])
def test_the_environment_does_not_count_where_python_ignores_it(tmp_path, option):
    assert settings_of_a_process(tmp_path, option) == f"None {config.DEFAULT_MAX_SIZE} []"


@needs_toml
def test_the_system_s_file_counts_where_the_environment_does_not(tmp_path, monkeypatch):
    """And what it means by ~ is no variable's to say."""
    write(tmp_path / "etc" / "nbcache.toml", 'dir = "~/x"\nlog = "info"\n')
    monkeypatch.setenv("HOME", "/stranger")
    monkeypatch.setenv("NBCACHE_LOG", "debug")
    assert (load().dir, load().log) == ("/stranger/x", "DEBUG")
    monkeypatch.setattr(config.process, "heeds_environment", lambda: False)
    assert (load().dir, load().log) == (pwd.getpwuid(os.geteuid()).pw_dir + "/x", "INFO")
    assert config.environment() == {}
    assert config.unknown_variables() == []


@root_only
@pytest.mark.parametrize(
    "become", [lambda: os.setresuid(STRANGER, 0, 0), lambda: os.setresgid(STRANGER, 0, 0)], ids=["setuid", "setgid"]
)
def test_the_environment_does_not_count_with_rights_of_somebody_else(tmp_path, become):
    said = settings_of_a_process(tmp_path, preexec_fn=become)
    assert said == f"None {config.DEFAULT_MAX_SIZE} []"


@root_only
@needs_toml
def test_the_environment_counts_for_a_server_that_gave_up_root(tmp_path):
    """The kernel closes /proc/self/auxv to it.  (What it imports then has to be readable for the user.)"""
    program = f"import ctypes, os; from nbcache import config; os.setresuid({STRANGER}, {STRANGER}, {STRANGER})\n{SHOW}"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"NBCACHE_DIR": "/x"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("/x ")


@root_only
def test_the_environment_does_not_count_with_capabilities_of_the_program(place):
    """The ids are the user's own then: only the kernel tells."""
    python = proc.interpreter_for(STRANGER)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    capable = place / "python"
    shutil.copy(os.path.realpath(python), capable)
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from nbcache import process; print(process.heeds_environment())"

    def said():
        start = {"PYTHONHOME": sys.base_prefix if python == sys.executable else "/usr"}
        return subprocess.run(
            [capable, "-S", "-c", program], env=start, user=STRANGER, group=STRANGER, extra_groups=[], cwd="/",
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    assert said() == "True\n"
    # struct vfs_cap_data, revision 2, effective: CAP_NET_BIND_SERVICE permitted.
    os.setxattr(capable, "security.capability", struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0))
    assert said() == "False\n"


def test_processors_are_read_by_their_names_and_short_ones():
    settings = config.load({"NBCACHE_CPU": "V3", "NBCACHE_CPU_LADDER": "v4, x86-64-v2,v4"})
    assert settings.cpu == "x86-64-v3"
    assert settings.cpu_ladder == ("x86-64-v4", "x86-64-v2")
    assert config.load({"NBCACHE_CPU": "Host"}).cpu == "host"
    settings = config.load({"NBCACHE_CPU": "pentium", "NBCACHE_CPU_LADDER": "v3,host"})
    assert (settings.cpu, settings.cpu_ladder, len(settings.problems)) == ("host", (), 2)
    assert all("accepted" in problem for problem in settings.problems)


def test_layers_are_absolute_each_once_or_none():
    settings = config.load({"NBCACHE_LAYERS": "/a:b::/a"})
    assert settings.layers == ("/a", os.path.abspath("b"))
    assert config.load({"NBCACHE_LAYERS": "None"}).layers is None
    assert config.load({}).layers == ()


def test_an_exercise_takes_nothing_from_elsewhere_whatever_a_file_says(tmp_path, monkeypatch):
    """What goes into a wheel was built then and there, and not fetched."""
    folder = tmp_path / "nbcache"
    folder.mkdir()
    (folder / "nbcache.toml").write_text('remote = "redis://cache"\nreadonly = true\nrecache = true\ndisable = true\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert str(config.load().remote) == "(redis://cache,)"
    made = config.load(environ.exercise_environment("/store", "/list", "host"))
    assert (made.remote, made.layers, made.readonly, made.recache, made.disable) == ((), None, False, False, False)
