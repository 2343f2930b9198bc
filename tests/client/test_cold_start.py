"""When others are asked, and how many."""

import pytest

from nbcache.client import cold_start


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Write what the kernel says of the groups of this process, which may use 64 processors."""
    monkeypatch.setattr(cold_start, "_GROUPS", str(tmp_path / "cgroup"))
    monkeypatch.setattr(cold_start, "_MOUNTED", str(tmp_path / "mounted"))
    monkeypatch.setattr(cold_start.os, "sched_getaffinity", lambda _pid: range(64), raising=False)

    def write(said, **files):
        (tmp_path / "cgroup").write_text(said)
        for name, content in files.items():
            path = tmp_path / "mounted" / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    return write


@pytest.mark.parametrize(
    ("said", "files", "processors"),
    [
        ("0::/a/b\n", {"a__b__cpu_DOT_max": "max 100000\n", "a__cpu_DOT_max": "390000 100000\n"}, 3),
        ("0::/a\n", {"a__cpu_DOT_max": "50000 100000\n"}, 0),
        ("0::/\n", {"cpu_DOT_max": "200000 100000\n"}, 2),
        ("0::/elsewhere\n", {"cpu_DOT_max": "200000 100000\n"}, 2),
        (
            "3:cpuset:/x\n4:cpu,cpuacct:/a\n",
            {"cpu__a__cpu_DOT_cfs_quota_us": "250000\n", "cpu__a__cpu_DOT_cfs_period_us": "100000\n"},
            2,
        ),
        ("4:cpu,cpuacct:/a\n", {"cpu__cpu_DOT_cfs_quota_us": "-1\n", "cpu__cpu_DOT_cfs_period_us": "100000\n"}, 64),
        ("0::/a\n", {"a__cpu_DOT_max": "\n"}, 64),
        ("nonsense", {}, 64),
    ],
)
def test_there_are_as_many_processors_as_the_kernel_gives_the_time_of(groups, said, files, processors):
    groups(said, **files)
    assert cold_start._processors() == processors


def test_a_helper_gives_way_before_it_imports_anything():
    assert cold_start._SERVE.startswith("os.nice(19)\n")
