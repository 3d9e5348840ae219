"""The steps of ``make test-containers``, with an engine: build the images, run all container tests, then the
integration tests of clients, brokers and security again with everything in containers. ``pytest --containers`` does
this for any other test. Arguments are passed to pytest.
"""

import subprocess
import sys

import pytest

from tests.containers import images

IN_CONTAINERS = ("tests/integration/clients/test_producer.py", "tests/kafka_zk/testing")
WEEKLY_IN_CONTAINERS = (
    "tests/integration/clients/test_reader.py",
    "tests/integration/brokers/test_broker_lifecycle.py",
    "tests/integration/brokers/test_zookeeper_security.py",
)


def main() -> int:
    given = sys.argv[1:]
    is_slice = "--slice" in given
    images.build(is_slice=is_slice)
    zookeeper = images.zookeeper_image()
    again = IN_CONTAINERS if is_slice else (*IN_CONTAINERS, *WEEKLY_IN_CONTAINERS)
    run = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--durations", "5"]
    embedded = [*run, "--dist", "loadgroup", *given, "-m", "containers", "tests/containers"]
    used = ["--containers", f"--zookeeper-image={zookeeper}", f"--broker-image={images.BROKER}"]
    contained = [*run, "--dist", "loadfile", *given, *used, "-m", "integration and not embedded", *again]
    return max(_exit_code(command) for command in (embedded, contained))


def _exit_code(command: list[str]) -> int:
    """The command's exit code. With ``--last-failed`` it is also 0 if none of this command's tests had failed."""
    code = subprocess.run(command, check=False).returncode
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED and "--last-failed" in command else code


if __name__ == "__main__":
    sys.exit(main())
