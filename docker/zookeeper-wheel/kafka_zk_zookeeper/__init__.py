"""The jars of the Apache ZooKeeper server, including those for TLS, from Maven Central."""

from pathlib import Path


def jars() -> list[Path]:
    """Paths of all jars. Their order on a class path does not matter."""
    return sorted((Path(__file__).parent / "jars").glob("*.jar"))
