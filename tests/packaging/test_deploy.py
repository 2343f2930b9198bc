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
manifests = pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
PLAIN_VARIABLES = {"XDG_RUNTIME_DIR", "TMPDIR"}
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
"""What the Pod Security level "restricted" lets a pod mount."""
COUNTED = (
    "import json, sys, runpy\nsys.path.insert(0, '')\nrunpy.run_path('main.py', run_name='__main__')\nimport nbcache\n"
)
COUNTED += "print(json.dumps(nbcache.stats()), file=sys.stderr)"


def documents(path):
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def pods(path):
    return [each["spec"]["template"]["spec"] for each in documents(path) if each["kind"] == "Deployment"]


def containers(pod):
    return [*pod.get("initContainers", []), *pod["containers"]]


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


@manifests
def test_manifests_mount_what_they_have_and_set_what_exists(path):
    known = {config.PREFIX + name.upper() for name in config.NAMES} | PLAIN_VARIABLES
    for each in documents(path):
        if each["kind"] == "ConfigMap":
            assert set(each["data"]) <= known
    for pod in pods(path):
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in containers(pod):
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            assert {variable["name"] for variable in container.get("env", [])} <= known
            command = container.get("command", [])
            if command[:1] == ["nbcache"]:
                assert cli.build_parser().parse_args(command[1:])


@manifests
def test_pods_run_under_the_level_restricted(path):
    for pod in pods(path):
        assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert all(set(volume) - {"name"} <= VOLUMES for volume in pod["volumes"])
        for container in containers(pod):
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False and own["capabilities"] == {"drop": ["ALL"]}
            assert own["readOnlyRootFilesystem"] is True and "runAsUser" not in own and "privileged" not in own


@manifests
def test_images_have_a_tag_and_containers_their_limits(path):
    for pod in pods(path):
        for container in containers(pod):
            assert container["image"].rpartition(":")[2] not in {"", "latest"} and container["imagePullPolicy"]
            assert set(container["resources"]) == {"requests", "limits"}


def test_only_who_builds_has_a_signing_key():
    for path in MANIFESTS:
        for pod in pods(path):
            for container in pod["containers"]:
                if container["name"] == "app":
                    assert all("key" not in mount["name"] for mount in container["volumeMounts"])
                    assert all(mount["subPath"] == "own" for mount in container["volumeMounts"])


@manifests
def test_manifests_are_what_kubernetes_takes(path):
    validate = pytest.importorskip("kubernetes_validate")
    for each in documents(path):
        validate.validate(each, "1.29", strict=True)
