"""The JVM options that ``kafka-zk broker`` understands, and its token for faults."""

import pytest

from kafka_zk.cli.cluster.broker import jvm_login_file
from kafka_zk.cli.main import run
from kafka_zk.embedded.fault_token import FAULTS_TOKEN_VARIABLE, is_token, new_token


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
    """The last option counts, as in a JVM."""
    assert jvm_login_file(kafka_opts) == ({} if path is None else {"java.security.auth.login.config": path})


@pytest.mark.parametrize("token", ["", "short", "0123456789abcdef ", "0123456789abcd\xe9f", "0123456789abcdef\udcff"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(
    token: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FAULTS_TOKEN_VARIABLE, token)
    assert run(["broker", "server.properties", "--faults-port", "9600"]) == 2
    said = capsys.readouterr().err
    assert "a token of 16 or more characters of ASCII" in " ".join(said.split())
    assert not token or token not in said
    assert is_token(new_token())
