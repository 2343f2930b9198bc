"""Settings: every value, every source, and that nothing unreadable gets in the way."""

import os
import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbcache import config
from nbcache.config import Settings, load


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

needs_toml = pytest.mark.skipif(config._toml_parser() is None, reason="no TOML parser")


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
    assert load_files(tmp_path).problems in (
        (),
        (f"{user_file} is ignored: reading TOML needs Python 3.11, or the package tomli",),
    )


def test_without_a_toml_parser_the_file_is_named(tmp_path, user_file, monkeypatch):
    user = write(user_file, 'dir = "/x"\n')
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", None)
    assert load_files(tmp_path).problems == (
        f"{user} is ignored: reading TOML needs Python 3.11, or the package tomli",
    )


def test_no_file_no_parser(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "_toml_parser", pytest.fail)
    assert load_files(tmp_path).problems == ()
