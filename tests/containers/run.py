"""What ``make test-containers`` runs, with an engine: build the images, all container tests, then integration tests of
clients, brokers and security once more with everything in containers. Any other runs so too: ``pytest --containers``.
"""

import subprocess
import sys

from tests.containers import images

IN_CONTAINERS = (
    "tests/integration/clients/test_reader.py",
    "tests/integration/clients/test_producer.py",
    "tests/integration/brokers/test_broker_lifecycle.py",
    "tests/integration/brokers/test_zookeeper_security.py",
    "tests/kafka_zk/testing",
)


def main() -> int:
    images.build_all()
    zookeeper = images.zookeeper_image()
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--durations", "5", *sys.argv[1:]]
    embedded = [*pytest, "--dist", "loadgroup", "-m", "containers", "tests/containers"]
    given = ["--containers", f"--zookeeper-image={zookeeper}", f"--broker-image={images.BROKER}"]
    contained = [*pytest, "--dist", "loadfile", *given, "-m", "integration and not embedded", *IN_CONTAINERS]
    return max(subprocess.run(command, check=False).returncode for command in (embedded, contained))


if __name__ == "__main__":
    sys.exit(main())
