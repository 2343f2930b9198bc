"""What `deploy/` has for containers: the steps of the Dockerfile, by hand, and manifests that mean what they say."""

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from nbtest import proc

from nbcache import config
from nbcache.cli import main as cli

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
COUNTED = (
    "import json, sys, runpy\nsys.path.insert(0, '')\nrunpy.run_path('main.py', run_name='__main__')\nimport nbcache\n"
)
COUNTED += "print(json.dumps(nbcache.stats()), file=sys.stderr)"


def documents(path):
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def pods(path):
    return [each["spec"]["template"]["spec"] for each in documents(path) if each["kind"] in {"Deployment", "DaemonSet"}]


def settings_of_the_image():
    text = (DEPLOY / "container" / "Dockerfile").read_text(encoding="utf-8")
    words = [word for line in text.splitlines() if line.startswith("ENV ") for word in line[4:].split()]
    return dict(word.split("=", 1) for word in words if word.startswith("NBCACHE_"))


def test_what_was_compiled_when_an_image_was_built_is_not_compiled_in_it(tmp_path):
    image = tmp_path / "image"
    shutil.copytree(DEPLOY / "container", image)
    level = {"NBCACHE_CPU": settings_of_the_image()["NBCACHE_CPU"]}
    store = image / "nbcache"
    assert proc.run(["exercise.py"], extra={**level, "NBCACHE_DIR": str(store)}, cwd=image).status == 0
    for folder, _, files in os.walk(store):
        for each in (folder, *(os.path.join(folder, name) for name in files)):
            os.chmod(each, 0o555 if os.path.isdir(each) else 0o444)
    own = tmp_path / "own"
    env = {**level, "NBCACHE_LAYERS": str(store), "NBCACHE_DIR": str(own)}
    outcome = proc.run(["-c", COUNTED], extra=env, cwd=image)
    counts = json.loads(outcome.stderr.splitlines()[-1])
    assert outcome.stdout == "45.0\n"
    assert counts["builds_count"] == 0 and sum(counts["sources"].values()) > 0, counts


def test_the_settings_of_the_image_exist():
    known = {config.PREFIX + name.upper() for name in config.NAMES}
    assert set(settings_of_the_image()) <= known


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_mount_what_they_have_and_set_what_exists(path):
    known = {config.PREFIX + name.upper() for name in config.NAMES}
    for each in documents(path):
        if each["kind"] == "ConfigMap":
            assert set(each["data"]) <= known
    for pod in pods(path):
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            assert {variable["name"] for variable in container.get("env", [])} <= known
            command = container.get("command", [])
            if command[:1] == ["nbcache"]:
                assert cli.build_parser().parse_args(command[1:])


def test_only_who_builds_has_a_signing_key():
    for path in MANIFESTS:
        for pod in pods(path):
            for container in pod["containers"]:
                if container["name"] == "app":
                    assert all("key" not in mount["name"] for mount in container["volumeMounts"])


def test_manifests_are_what_kubernetes_takes():
    validate = pytest.importorskip("kubernetes_validate")
    for path in MANIFESTS:
        for each in documents(path):
            validate.validate(each, "1.29", strict=True)
