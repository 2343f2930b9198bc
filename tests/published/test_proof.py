"""The process that proves a publication runs nobody's code but what the one that publishes runs."""

from nbtest.published import accumulator

MODULE = """
from numba import njit

@njit
def twice(x):
    return 2 * x
"""


def test_the_current_directory_is_not_where_it_imports_from(tmp_path):
    (tmp_path / "proved.py").write_text(MODULE)
    elsewhere = tmp_path / "elsewhere"
    for name in ("nbcache", "json", "numpy"):
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')")
    # `python -c` has put the current directory first; a script hasn't, and goes to another one.
    program = f"""
        import os, sys
        import proved
        sys.path.remove("")
        os.chdir({str(elsewhere)!r})
        nbcache.publish("twice", proved.twice, ["(i8,)"])
        print(nbcache.load("twice")(3))
        """
    assert accumulator(tmp_path / "store", program, tmp_path).stdout == "6\n"
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_what_the_environment_names_does_not_count_where_it_is_not_heeded(tmp_path):
    (tmp_path / "proved.py").write_text(MODULE)
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('it ran')")
    program = f"""
        import os
        os.environ["PYTHONPATH"] = {str(planted)!r}
        import proved
        nbcache.publish("twice", proved.twice, ["(i8,)"])
        """
    accumulator(tmp_path / "store", program, tmp_path)
    assert not (tmp_path / "ran").exists()
