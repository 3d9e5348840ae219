"""Writes a wheel's bill of materials as CycloneDX JSON: the packages that it installs without extras, and its jars."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path, PurePath
from typing import Any


def write_bill(wheel: Path, target: Path, epoch: str) -> Path:
    """Install the wheel in an empty environment, and list what is installed.

    Raises: CalledProcessError if it cannot be installed, or if the bill is not valid.
    """
    about = metadata(wheel)
    bill = target / f"{about['Name']}-{about['Version']}.cdx.json"
    with tempfile.TemporaryDirectory() as temporary:
        environment, project = Path(temporary, "venv"), Path(temporary, "pyproject.toml")
        project.write_text(root_component(about))
        run(sys.executable, "-m", "venv", "--without-pip", environment)
        python = environment / "bin" / "python"
        run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet", wheel)
        run(
            sys.executable, "-m", "cyclonedx_py", "environment", python,
            "--pyproject", project, "--mc-type", "library", "--sv", "1.6", "--output-reproducible",
            "--output-file", bill,
            environ={"SOURCE_DATE_EPOCH": epoch},
        )  # fmt: skip
    complete = json.loads(bill.read_text())
    complete["metadata"]["component"]["components"] = list(jars(wheel))
    assert valid(complete), f"{bill.name} is valid"
    bill.write_text(json.dumps(complete, indent=2) + "\n")
    return bill


def jars(wheel: Path) -> Iterator[dict[str, Any]]:
    """The jars in a wheel as CycloneDX components, with their Maven coordinates if the jar contains them."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(".jar")):
            content = archive.read(name)
            artifact, _, version = PurePath(name).stem.rpartition("-")
            digest = {"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}
            component = {"type": "library", "bom-ref": name, "name": artifact, "version": version, "hashes": [digest]}
            if group := _group(content, artifact):
                component |= {"group": group, "purl": f"pkg:maven/{group}/{artifact}@{version}"}
            yield component


def _group(jar: bytes, artifact: str) -> str | None:
    with zipfile.ZipFile(io.BytesIO(jar)) as archive:
        found = [name for name in archive.namelist() if name.endswith(f"/{artifact}/pom.properties")]
        return found[0].split("/")[2] if found else None


def valid(bill: dict[str, Any]) -> bool:
    """True if the bill conforms to CycloneDX's schema."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(archive.read(name))


def root_component(about: Message) -> str:
    """A pyproject.toml with the metadata that CycloneDX shows for the distribution itself."""
    lines = ["[project]", f'name = "{about["Name"]}"', f'version = "{about["Version"]}"']
    lines += [f'description = "{about["Summary"]}"', f'license = "{about["License-Expression"] or about["License"]}"']
    needed = [text for text in about.get_all("Requires-Dist") or () if "extra ==" not in text]
    lines += [f"dependencies = {json.dumps(needed)}", "[project.urls]"]
    addresses = (text.partition(", ") for text in about.get_all("Project-URL") or ())
    return "\n".join([*lines, *(f'"{label}" = "{address}"' for label, _, address in addresses)]) + "\n"


def run(*command: str | Path, environ: dict[str, str] | None = None) -> None:
    """Run a command without showing its output. Raises: CalledProcessError."""
    arguments = [str(part) for part in command]
    subprocess.run(arguments, env={**os.environ, **(environ or {})}, check=True, stdout=subprocess.DEVNULL)
