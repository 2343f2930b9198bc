"""Writes the bill of materials of the wheel in a folder, as CycloneDX 1.6: what it needs, and what it is.   sbom.py DIR

The versions that a user gets are chosen when it is installed, so requirements are named as the wheel states them.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
import zipfile
from email import message_from_string
from pathlib import Path
from typing import Any


def component(requirement: str) -> dict[str, Any]:
    """Return one requirement as a component; what only an extra needs is optional."""
    spelt, _, marker = requirement.partition(";")
    name = re.match(r"[\w.\-]+", spelt)[0]  # type: ignore[index]
    return {
        "type": "library",
        "name": name,
        "purl": f"pkg:pypi/{name.lower().replace('_', '-')}",
        "scope": "optional" if "extra" in marker else "required",
        "properties": [{"name": "python:requirement", "value": requirement}],
    }


def bill(wheel: Path) -> dict[str, Any]:
    """Return the bill of a wheel. The same wheel has the same one."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        said = message_from_string(archive.read(name).decode("utf-8"))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "name": said["Name"],
                "version": said["Version"],
                "purl": f"pkg:pypi/{said['Name']}@{said['Version']}",
                "licenses": [{"license": {"id": said["License-Expression"]}}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
        },
        "components": [component(each) for each in said.get_all("Requires-Dist", [])],
    }


def main(folder: str) -> None:
    """Write it beside the wheel."""
    (wheel,) = Path(folder).glob("*.whl")
    path = wheel.with_name("-".join(wheel.name.split("-")[:2]) + ".cdx.json")
    path.write_text(json.dumps(bill(wheel), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
