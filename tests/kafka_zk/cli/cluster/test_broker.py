"""What ``kafka-zk broker`` takes of a JVM's options."""

import pytest

from kafka_zk.cli.cluster.broker import jvm_login_file


@pytest.mark.parametrize(
    ("kafka_opts", "path"),
    [
        ("", None),
        ("-Xmx1g -Dother=x", None),
        ("-Djava.security.auth.login.config=/etc/jaas.conf -ea", "/etc/jaas.conf"),
        ("-Djava.security.auth.login.config=/a '-Djava.security.auth.login.config=/my files/b'", "/my files/b"),
        ("\"-Djava.security.auth.login.config=/a", None),
    ],
)
def test_the_login_file_of_kafka_opts(kafka_opts: str, path: str | None) -> None:
    """The last one counts, as in a JVM."""
    assert jvm_login_file(kafka_opts) == ({} if path is None else {"java.security.auth.login.config": path})
