"""The security keys of a listener: which ones apply to it, and which are refused."""

import sys
from pathlib import Path

import pytest

from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.listener_security import ignored_client_auth, inter_broker_security, listener_security
from kafka_zk.security.password import Password
from kafka_zk.security.token_sources import ClientCredentials, TokenCallback, UnsecuredTokens
from tests.secure_broker import Files, make_files

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="p" user_a="secret";'
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="b" password="hidden";'
KRB5 = "com.sun.security.auth.module.Krb5LoginModule"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("stores"))


def tls_keys(files: Files) -> dict[str, str]:
    return {
        "ssl.keystore.location": str(files.client), "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(files.authority), "ssl.truststore.type": "PEM",
    }  # fmt: skip


def test_a_plain_listener_has_no_security() -> None:
    assert listener_security({}, "PLAINTEXT", "PLAINTEXT").tls is None
    assert listener_security({}, "PLAINTEXT", "PLAINTEXT").sasl is None


def test_the_users_of_plain_and_the_mechanisms_in_kafkas_order() -> None:
    keys = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
        "listener.name.outside.plain.sasl.jaas.config": PLAIN,
        "listener.name.outside.scram-sha-256.sasl.jaas.config": SCRAM,
    }
    sasl = listener_security(keys, "OUTSIDE", "SASL_PLAINTEXT").sasl
    assert sasl is not None and sasl.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert {user: password.value for user, password in sasl.plain_users.items()} == {"a": "secret"}
    assert "secret" not in repr(sasl)


def test_a_listeners_own_key_wins(files: Files) -> None:
    keys = {**tls_keys(files), "ssl.client.auth": "none", "listener.name.in.ssl.client.auth": "required"}
    tls = listener_security(keys, "IN", "SSL").tls
    assert tls is not None and tls.client_auth == "required"


def test_client_auth_applies_to_sasl_ssl_under_its_own_name_only(files: Files) -> None:
    """Kafka does the same, and warns."""
    keys = {
        **tls_keys(files), "ssl.client.auth": "required", "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.a.plain.sasl.jaas.config": PLAIN,
    }  # fmt: skip
    tls = listener_security(keys, "A", "SASL_SSL").tls
    assert tls is not None and tls.client_auth == "none"
    assert ignored_client_auth(keys, {"A": "SASL_SSL", "B": "SSL"}) == ["A"]
    own = listener_security({**keys, "listener.name.a.ssl.client.auth": "required"}, "A", "SASL_SSL").tls
    assert own is not None and own.client_auth == "required"


@pytest.mark.parametrize(
    ("protocol", "keys", "sentence"),
    [
        ("SASL_PLAINTEXT", {}, "gssapi.sasl.jaas.config is missing"),
        ("SASL_PLAINTEXT", {"sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5"}, "can enable PLAIN"),
        ("SASL_PLAINTEXT", {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": PLAIN}, "is missing"),
        (
            "SASL_PLAINTEXT",
            {"sasl.enabled.mechanisms": "PLAIN", "listener.name.l.plain.sasl.jaas.config": SCRAM},
            "not the login module of PLAIN",
        ),
        (
            "SASL_PLAINTEXT",
            {"sasl.enabled.mechanisms": "PLAIN", "listener.name.l.plain.sasl.jaas.config": "hidden"},
            "it ends where",
        ),
        ("SSL", {}, "ssl.keystore.location is missing"),
    ],
)
def test_what_cannot_protect_a_listener_is_refused(protocol: str, keys: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidSecurity, match=sentence) as refused:
        listener_security(keys, "L", protocol)
    assert str(refused.value).startswith(f"listener L ({protocol}): ")
    assert "hidden" not in str(refused.value) and "secret" not in str(refused.value)


def test_client_auth_and_mapping_rules_are_checked(files: Files) -> None:
    for key, value in (("ssl.client.auth", "maybe"), ("ssl.principal.mapping.rules", "RULE:(/x/")):
        with pytest.raises(InvalidSecurity, match=key):
            listener_security({**tls_keys(files), key: value}, "L", "SSL")


def test_brokers_log_in_as_their_login_module_says(files: Files) -> None:
    keys = {
        **tls_keys(files), "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.in.scram-sha-512.sasl.jaas.config": SCRAM,
    }  # fmt: skip
    security = inter_broker_security(keys, "IN", "SASL_SSL")
    assert security.sasl is not None and security.tls is not None
    assert (security.sasl.mechanism, security.sasl.username) == ("SCRAM-SHA-512", "b")
    with pytest.raises(InvalidSecurity, match="is not enabled at this listener"):
        inter_broker_security({**keys, "sasl.mechanism.inter.broker.protocol": "PLAIN"}, "IN", "SASL_SSL")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSecurity, match=r"none\.pem"):
        listener_security({"ssl.keystore.location": str(tmp_path / "none.pem")}, "L", "SSL")


@pytest.mark.parametrize("text", ["-1", "1h", "1.5", str(2**63)])
def test_the_lifetime_of_sessions_is_a_number(text: str) -> None:
    keys = {"sasl.enabled.mechanisms": "PLAIN", "listener.name.a.plain.sasl.jaas.config": PLAIN}
    with pytest.raises(InvalidSecurity, match=f"connections.max.reauth.ms={text}: must be a number of ms"):
        listener_security({**keys, "connections.max.reauth.ms": text}, "A", "SASL_PLAINTEXT")


def test_the_lifetime_of_sessions_by_listener_and_mechanism() -> None:
    """The longest prefix wins."""
    keys = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "connections.max.reauth.ms": "1",
        "listener.name.a.plain.sasl.jaas.config": PLAIN, "listener.name.a.scram-sha-256.sasl.jaas.config": SCRAM,
        "listener.name.a.scram-sha-512.sasl.jaas.config": SCRAM,
    }  # fmt: skip

    def lifetimes(**more: str) -> list[int]:
        sasl = listener_security({**keys, **more}, "A", "SASL_PLAINTEXT").sasl
        assert sasl is not None
        return [sasl.max_reauth_ms[mechanism] for mechanism in sasl.mechanisms]

    own, of_mechanism = "listener.name.a.connections.max.reauth.ms", "listener.name.a.plain.connections.max.reauth.ms"
    assert lifetimes() == [1, 1, 1]
    assert lifetimes(**{own: "2"}) == [2, 2, 2]
    assert lifetimes(**{own: "2", of_mechanism: "3"}) == [3, 2, 2]


def test_brokers_log_in_to_each_other_by_a_jaas_file(tmp_path: Path) -> None:
    login_file = tmp_path / "jaas.conf"
    login_file.write_text(f"KafkaServer {{ {SCRAM.rstrip(';')} username='b' password='a\"b'; }};")
    keys = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256", "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "java.security.auth.login.config": str(login_file),
    }  # fmt: skip
    sasl = inter_broker_security(keys, "A", "SASL_PLAINTEXT").sasl
    assert sasl is not None and (sasl.username, sasl.password.value) == ("b", 'a"b')
    assert listener_security(keys, "A", "SASL_PLAINTEXT").sasl is not None


def test_brokers_log_in_to_each_other_with_tokens() -> None:
    """The tokens come from the login module, a token endpoint or a Python function."""
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    keys = {
        "sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.a.oauthbearer.sasl.jaas.config": f'{module} unsecuredLoginStringClaim_sub="broker";',
    }  # fmt: skip

    def tokens(**more: str) -> object:
        sasl = inter_broker_security({**keys, **more}, "A", "SASL_PLAINTEXT").sasl
        assert sasl is not None
        return sasl.tokens

    assert tokens() == UnsecuredTokens((("unsecuredLoginStringClaim_sub", "broker"),))
    callback = {"listener.name.a.oauthbearer.sasl.login.callback.handler.class": "my.login:token"}
    assert tokens(**callback) == TokenCallback("my.login:token")
    endpoint = {
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
        "listener.name.a.oauthbearer.sasl.jaas.config": f"{module} clientId=b clientSecret=s;",
    }
    assert tokens(**endpoint) == ClientCredentials("https://login.example/token", "b", Password("s"))


def test_kerberos_without_its_package_refuses_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    keytab = tmp_path / "broker.keytab"
    keytab.touch()
    module = f'{KRB5} required useKeyTab=true keyTab="{keytab}" principal="kafka/host@REALM";'
    keys = {"sasl.enabled.mechanisms": "GSSAPI", "listener.name.l.gssapi.sasl.jaas.config": module}
    with pytest.raises(InvalidSecurity, match=r"pip install 'kafka-zk\[gssapi\]'"):
        listener_security(keys, "L", "SASL_PLAINTEXT")
    ticket = {**keys, "listener.name.l.gssapi.sasl.jaas.config": f"{KRB5} required useTicketCache=true;"}
    with pytest.raises(InvalidSecurity, match="a broker's Krb5LoginModule needs useKeyTab=true"):
        listener_security(ticket, "L", "SASL_PLAINTEXT")
