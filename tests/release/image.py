"""Builds the broker's image from the wheel of a release."""

import shutil
import subprocess
from pathlib import Path

IMAGE = "kafka-zk"


def has_engine() -> bool:
    """True if Docker's client is installed and its engine responds."""
    if not shutil.which("docker"):
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def build_image(folder: Path, distributions: list[Path], version: str, epoch: str) -> str:
    """Build the image of the clone ``folder`` from the wheels among ``distributions``; returns its name.

    Raises: CalledProcessError if the build fails, also if the native module cannot be used in the image.
    """
    wheels = folder / "target" / "containers" / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    for path in distributions:
        if path.suffix == ".whl":
            shutil.copy(path, wheels)
    name = f"{IMAGE}:{version}"
    from_wheels = f"--only-binary=kafka-zk --find-links=target/containers/wheels kafka-zk=={version}"
    arguments = {"PIP_ARGUMENTS": from_wheels, "SOURCE_DATE_EPOCH": epoch}
    options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
    command = ["docker", "build", "--quiet", "--file", "docker/Dockerfile", "--tag", name, *options, "."]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return name
