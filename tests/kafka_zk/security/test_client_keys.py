"""The security keys of clients: three spellings, one result; contradictions and secrets."""

import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kafka_zk.security.client_keys import client_security
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity, KerberosLogin, SaslSettings
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.password import Password
from kafka_zk.security.token_sources import ClientCredentials, TokenCallback, UnsecuredTokens
from tests.kafka_zk.security.test_stores import key_of

STORES = Path(__file__).parent / "stores"
MODULES = "org.apache.kafka.common.security."
SCRAM = f'{MODULES}scram.ScramLoginModule required username="alice" password="s3cret";'
PLAIN = f'{MODULES}plain.PlainLoginModule required username="alice" password="s3cret";'
OAUTH = f"{MODULES}oauthbearer.OAuthBearerLoginModule required "
SASL = {"security.protocol": "SASL_PLAINTEXT"}
TLS = {"security.protocol": "SSL"}


def sasl(**keys: Any) -> SaslSettings:
    found = client_security({**SASL, **{name.replace("__", "."): value for name, value in keys.items()}}).sasl
    assert found is not None
    return found


def test_without_keys_a_client_is_plain() -> None:
    assert client_security({}) == client_security({"bootstrap.servers": "h:1", "acks": "all"}) == NO_SECURITY


ALICE = ClientSecurity("SASL_PLAINTEXT", None, SaslSettings("SCRAM-SHA-256", "alice", Password("s3cret")))


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM},
        {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "SCRAM-SHA-256", "sasl.username": "alice",
         "sasl.password": "s3cret"},
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "alice",
         "sasl_plain_password": "s3cret"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice",
         "sasl.password": Password("s3cret"), "sasl.kerberos.service.name": "kafka"},
    ],
)  # fmt: skip
def test_java_librdkafka_and_kafka_python_say_the_same(properties: dict[str, Any]) -> None:
    assert client_security(properties) == ALICE


def test_a_delegation_token() -> None:
    config = SCRAM.replace(";", ' tokenauth="true";')
    assert sasl(sasl__mechanism="SCRAM-SHA-512", sasl__jaas__config=config).is_token


@pytest.mark.parametrize("name", ["keystore", "truststore"])
@pytest.mark.parametrize("kind", ["", "JKS", "PKCS12", "jks"])
@pytest.mark.parametrize("suffix", ["jks", "p12"])
def test_a_java_store_says_what_it_is(name: str, kind: str, suffix: str) -> None:
    keys = {f"ssl.{name}.location": str(STORES / f"{name}.{suffix}"), f"ssl.{name}.password": "storesecret",
            f"ssl.{name}.type": kind}  # fmt: skip
    if (name, suffix) == ("keystore", "jks"):
        keys["ssl.key.password"] = "keysecret"
    tls = client_security({**TLS, **keys}).tls
    assert tls is not None and (tls.identity if name == "keystore" else tls.authorities)


def test_pem_in_every_spelling(tmp_path: Path) -> None:
    identity = key_of("JKS")
    key, chain = identity.private_key.value, identity.certificate_chain
    (tmp_path / "both.pem").write_text(key + "\n" + chain)
    (tmp_path / "key.pem").write_text(key)
    (tmp_path / "chain.pem").write_text(chain)
    ways: list[dict[str, Any]] = [
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": tmp_path / "both.pem",
         "ssl.truststore.location": tmp_path / "chain.pem"},
        {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain,
         "ssl.truststore.type": "PEM", "ssl.truststore.certificates": chain},
        {"ssl.key.location": str(tmp_path / "key.pem"), "ssl.certificate.location": str(tmp_path / "chain.pem"),
         "ssl.ca.location": str(tmp_path / "chain.pem")},
        {"ssl.key.pem": key, "ssl.certificate.pem": chain, "ssl.ca.pem": chain},
        {"ssl_keyfile": str(tmp_path / "key.pem"), "ssl_certfile": str(tmp_path / "chain.pem"),
         "ssl_cafile": str(tmp_path / "chain.pem")},
    ]  # fmt: skip
    first, *others = [client_security({**TLS, **way}).tls for way in ways]
    assert first is not None and first.identity == identity and first.authorities == chain
    assert all(other == first for other in others)


def test_what_is_verified_and_which_versions() -> None:
    tls = client_security(TLS).tls
    assert tls is not None and tls.verify and tls.check_host_name and not tls.protocols
    for algorithm in ("", "none"):
        tls = client_security({**TLS, "ssl.endpoint.identification.algorithm": algorithm}).tls
        assert tls is not None and tls.verify and not tls.check_host_name
    tls = client_security({**TLS, "enable.ssl.certificate.verification": "false",
                           "ssl.enabled.protocols": "TLSv1.1,TLSv1.2", "ssl.protocol": "TLSv1.3",
                           "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}).tls  # fmt: skip
    assert tls is not None and not tls.verify and tls.protocols == ("TLSv1.2",)
    assert tls.suites == ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",)


def callback(config: str) -> tuple[str, float]:
    return config, 1.0


def test_tokens_come_from_an_endpoint_a_callback_or_options() -> None:
    url = "https://idp/token"
    wanted = ClientCredentials(url, "me", Password("s3cret"), "a b", (("k", "v"),))
    assert wanted == sasl(
        sasl__mechanism="OAUTHBEARER", sasl__oauthbearer__token__endpoint__url=url,
        sasl__jaas__config=OAUTH + 'clientId="me" clientSecret="s3cret" scope="a b" extension_k="v";',
        sasl__login__callback__handler__class=f"{MODULES}oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    ).tokens  # fmt: skip
    assert wanted == sasl(
        sasl__mechanism="OAUTHBEARER", sasl__oauthbearer__method="oidc", sasl__oauthbearer__client__id="me",
        sasl__oauthbearer__client__secret="s3cret", sasl__oauthbearer__scope="a b",
        sasl__oauthbearer__extensions="k=v", sasl__oauthbearer__token__endpoint__url=url,
    ).tokens  # fmt: skip
    assert sasl(sasl__mechanism="OAUTHBEARER", sasl__login__callback__handler__class="my.module:token").tokens == (
        TokenCallback("my.module:token")
    )
    assert sasl(sasl__mechanism="OAUTHBEARER", oauth_cb=callback, sasl__oauthbearer__config="x").tokens == (
        TokenCallback(callback, Password("x"))
    )
    assert sasl(
        sasl__mechanism="OAUTHBEARER", sasl__jaas__config=OAUTH + 'unsecuredLoginStringClaim_sub="alice";'
    ).tokens == UnsecuredTokens((("unsecuredLoginStringClaim_sub", "alice"),))
    assert isinstance(
        sasl(sasl__mechanism="OAUTHBEARER", sasl__oauthbearer__config="principal=alice lifeSeconds=60").tokens,
        UnsecuredTokens,
    )


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"security.protocol": "TLS"}, "PLAINTEXT, SSL"),
        ({"sasl.mechanism": "PLAIN"}, "no effect with security.protocol=PLAINTEXT"),
        ({**TLS, "sasl.username": "a"}, "SASL_SSL"),
        ({**SASL, "ssl.ca.location": "/ca.pem"}, "SASL_SSL"),
        ({**SASL, "enable.ssl.certificate.verification": "false"}, "SASL_SSL"),
        (SASL, "sasl.mechanism is missing"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.kerberos.service.name is needed"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "a"}, "sasl.password is needed"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.password": "s3cret"}, "sasl.username is needed"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM}, "contradict"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN"}, "are the same"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN, "sasl.username": "a"}, "contradict"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN[:-1]}, "ends where"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": "com.x.Login required;"}, "not known"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{MODULES}plain.PlainLoginModule required;"},
         "username"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "token.endpoint.url"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "com.x.Handler"},
         "module:function"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": OAUTH + ";"}, "unsecuredLoginStringClaim_sub"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "file:/t"}, "http"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "http://t"}, "client.id"),
        ({**TLS, "ssl.truststore.locaton": "/x"}, "did you mean ssl.truststore.location"),
        ({**TLS, "ssl.engine.factory.class": "x"}, "not supported"),
        ({**TLS, "ssl.truststore.location": "/no/such"}, "No such file"),
        ({**TLS, "ssl.truststore.location": "~no-such-user/ca.pem"}, "home directory"),
        ({**TLS, "ssl.truststore.location": "/no\0such"}, "null byte"),
        ({**TLS, "ssl.truststore.location": "/dev/zero"}, "larger than 16 MB"),
        ({**TLS, "ssl.truststore.location": "/x", "ssl.ca.location": "/y"}, "contradict"),
        ({**TLS, "ssl.truststore.password": "s3cret"}, "truststore.location is missing"),
        ({**TLS, "ssl.keystore.password": "s3cret"}, "no private key"),
        ({**TLS, "ssl.key.pem": "x"}, "no certificate"),
        ({**TLS, "ssl.certificate.pem": "x"}, "no private key"),
        ({**TLS, "ssl.ca.pem": "x"}, "contains no certificate"),
        ({**TLS, "ssl.endpoint.identification.algorithm": "ldap"}, "https"),
        ({**TLS, "ssl.enabled.protocols": "SSLv3"}, "TLSv1.2"),
        ({**TLS, "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "all of"),
        ({**TLS, "enable.ssl.certificate.verification": "maybe"}, "true or false"),
        ({**TLS, "ssl.truststore.location": str(STORES / "truststore.jks"), "ssl.truststore.type": "BKS"}, "JKS"),
        ({**TLS, "ssl.truststore.location": str(STORES / "escapes.pem"), "ssl.truststore.password": "s3cret"},
         "PEM file has no password"),
        ({**TLS, "ssl.keystore.location": str(STORES / "keystore.jks"), "ssl.keystore.password": "s3cret"}, "wrong"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_a_sentence(properties: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSecurity) as refused:
        client_security(properties)
    assert told in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_result_can_be_pickled_and_shows_no_secret() -> None:
    found = client_security({
        "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM,
        "ssl.keystore.location": str(STORES / "keystore.p12"), "ssl.keystore.password": "storesecret",
    })  # fmt: skip
    assert pickle.loads(pickle.dumps(found)) == found
    assert "s3cret" not in repr(found) and "PRIVATE" not in repr(found) and "alice" in repr(found)


KERBEROS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"


def test_kerberos_without_its_package_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(InvalidSecurity, match=r"pip install 'kafka-zk\[gssapi\]'"):
        client_security(KERBEROS)


def test_kerberos_logs_in_with_a_keytab_or_a_ticket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))
    keytab = tmp_path / "alice.keytab"
    keytab.touch()
    of_keytab = KerberosLogin("kafka", "alice@REALM", str(keytab))
    module = f'{KRB5} useKeyTab=true keyTab="{keytab}" principal="alice@REALM";'
    librdkafka = {"sasl.kerberos.keytab": str(keytab), "sasl.kerberos.principal": "alice@REALM"}
    assert kerberos({**KERBEROS, "sasl.jaas.config": module}) == of_keytab
    assert kerberos({**KERBEROS, **librdkafka}) == of_keytab
    assert kerberos(KERBEROS) == KerberosLogin("kafka")
    cache = f'{KRB5} useTicketCache=true ticketCache="/tmp/tickets";'
    assert kerberos({**KERBEROS, "sasl.jaas.config": cache}) == KerberosLogin("kafka", cache="/tmp/tickets")


def kerberos(keys: dict[str, Any]) -> KerberosLogin | None:
    sasl = client_security(keys).sasl
    assert sasl is not None and sasl.may_wait
    return sasl.kerberos


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("useKeyTab=true", "needs keyTab="),
        ('useKeyTab=true principal="a@R" keyTab="/not/there"', "/not/there: there is no such file"),
        ("storeKey=true", "useKeyTab=true or useTicketCache=true"),
        ('useTicketCache=true serviceName="other"', "contradict each other"),
    ],
)
def test_a_login_module_of_kerberos_that_cannot_work_is_refused(
    monkeypatch: pytest.MonkeyPatch, module: str, sentence: str
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))
    with pytest.raises(InvalidSecurity, match=sentence):
        client_security({**KERBEROS, "sasl.jaas.config": f"{KRB5} {module};"})
