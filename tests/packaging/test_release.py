"""What scripts/release builds, and the recipe for conda."""

import hashlib
import json
import re
import shutil
import subprocess

import pytest
import yaml
from bare import ROOT

import nbcache

try:
    import tomllib
except ImportError:
    import tomli as tomllib


def test_the_recipe_needs_what_the_package_needs():
    recipe = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    spaced = [re.sub(r"(?<=\w)>=", " >=", each.partition(";")[0]) for each in project["dependencies"]]
    assert recipe["requirements"]["run"] == [f"python {project['requires-python']}", *spaced]
    assert recipe["context"]["version"] == nbcache.__version__


@pytest.mark.long
def test_a_release_is_whole_and_its_checksums_hold(tmp_path):
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs a checkout")
    done = subprocess.run([ROOT / "scripts" / "release", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2
    names = {f"nbcache-{nbcache.__version__}{end}" for end in ("-py3-none-any.whl", ".tar.gz", ".cdx.json")}
    assert {path.name for path in tmp_path.iterdir()} == {*names, "SHA256SUMS"}
    for line in (tmp_path / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest
    bill = json.loads((tmp_path / f"nbcache-{nbcache.__version__}.cdx.json").read_text())
    scopes = {each["name"]: each["scope"] for each in bill["components"]}
    assert scopes["numba"] == "required" and scopes["opendal"] == "optional"
