"""The jars of the Apache ZooKeeper server, TLS included, as Maven Central has them."""

from pathlib import Path


def jars() -> list[Path]:
    """All of them; their order on a class path does not matter."""
    return sorted((Path(__file__).parent / "jars").glob("*.jar"))
