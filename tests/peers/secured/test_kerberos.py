"""Kerberos logins of our clients, kcat and Kafka's Java tools at a kafka-zk broker, with a real KDC.

The broker logs in to itself the same way. Its rules map the principals of alice and alan to the users ALICE and ALAN,
who may do everything; bob may do nothing. Sessions last three seconds. ``make test-kerberos`` runs these tests, because
pip compiles the package gssapi, which takes minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.ports import free_port
from kafka_zk.network.sasl_authentication import SaslAuthentication
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.security import kerberos as library
from kafka_zk.security.client_security import KerberosLogin
from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.kerberos import gssapi_client
from kafka_zk.spark_jobs.session import spark_session
from tests.integration.spark.sessions import stop_shared
from tests.peers import apache_kafka, jars
from tests.peers.clients.logins import KafkasTools, Login
from tests.peers.processes import ServerProcess, wait_until
from tests.peers.sasl_probe import CLOSED, SaslProbe
from tests.peers.targets import kafka_zk_command

pytestmark = pytest.mark.kerberos

_HOST, _TOPIC, _TIMEOUT_S = "localhost", "kerberos", 60
_MODULE = "com.sun.security.auth.module.Krb5LoginModule"


@dataclass(frozen=True)
class Kerberos:
    """A broker and a KDC. ``environ``: of processes that use the KDC."""

    folder: Path
    bootstrap: str
    alice: str
    environ: dict[str, str]
    broker: ServerProcess
    realm: Any

    @property
    def log(self) -> str:
        """The output of the broker."""
        return (self.folder / "broker.out").read_text()

    def messages(self, service: str = "kafka", principal: str = "alice") -> Generator[bytes, bytes, None]:
        """The messages of a login of our client."""
        name, keytab = f"{principal}@{self.realm.realm}", str(self.folder / f"{principal}.keytab")
        return gssapi_client(KerberosLogin(service, name, keytab), _HOST)

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def login(self, principal: str, keytab: str) -> dict[str, str]:
        """Java's keys."""
        path = self.folder / keytab
        module = f'{_MODULE} required useKeyTab=true storeKey=true keyTab="{path}" principal="{principal}";'
        return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka", "sasl.jaas.config": module}  # fmt: skip


@pytest.fixture(scope="module")
def kerberos(peer_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    import k5test

    folder = tmp_path_factory.mktemp("kerberos")
    realm: Any = k5test.K5Realm(get_creds=False, create_host=False)
    service = f"kafka/{_HOST}@{realm.realm}"
    environ = {name: realm.env[name] for name in ("KRB5_CONFIG", "KRB5_KDC_PROFILE", "KRB5CCNAME") if name in realm.env}
    environ["JAVA_TOOL_OPTIONS"] = f"-Djava.security.krb5.conf={environ['KRB5_CONFIG']}"
    alice = f"alice@{realm.realm}"
    others = [(name, f"{name}@{realm.realm}") for name in ("alan", "bob")]
    for name, principal in (("broker", service), ("alice", alice), *others, ("other", f"other/{_HOST}@{realm.realm}")):
        realm.addprinc(principal)
        realm.extract_keytab(principal, str(folder / f"{name}.keytab"))
    zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper", force_sync=False)
    before = dict(os.environ)
    os.environ.update(environ)
    broker = None
    try:
        port = free_port()
        address = f"{_HOST}:{port}"
        module = f'{_MODULE} required useKeyTab=true keyTab="{folder / "broker.keytab"}" principal="{service}";'
        path = apache_kafka.write_properties(folder / "server.properties", apache_kafka.server_properties(
            0, port, folder / "logs", zookeeper.connect_string, {
                "listeners": f"SASL_PLAINTEXT://{address}", "advertised.listeners": f"SASL_PLAINTEXT://{address}",
                "security.inter.broker.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": "GSSAPI",
                "sasl.mechanism.inter.broker.protocol": "GSSAPI", "sasl.kerberos.service.name": "kafka",
                "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1@$0](al.*@.*)s/@.*///U,DEFAULT",
                "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": module,
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": "User:kafka;User:ALICE;User:ALAN", "connections.max.reauth.ms": "3000",
            },
        ))  # fmt: skip
        broker = ServerProcess("broker with Kerberos", kafka_zk_command(path), folder / "broker.out")
        made = Kerberos(folder, address, alice, environ, broker, realm)
        file = str(apache_kafka.write_properties(folder / "client.properties", made.login(alice, "alice.keytab")))
        at = ["--bootstrap-server", address, "--command-config", file]
        create = [sys.executable, "-m", "kafka_zk", "topics", "create", "--topic", _TOPIC, *at]
        wait_until(lambda: subprocess.run(create, check=False).returncode == 0, _TIMEOUT_S, "the topic")
        yield made
    finally:
        if broker is not None:
            broker.stop()
        zookeeper.stop()
        realm.stop()
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(realm.tmpdir, ignore_errors=True)


def test_our_clients_log_in_with_a_keytab(kerberos: Kerberos) -> None:
    keys: dict[str, Any] = {"bootstrap.servers": kerberos.bootstrap, **kerberos.login(kerberos.alice, "alice.keytab")}
    group: dict[str, Any] = {"group.id": "g", "auto.offset.reset": "earliest"}
    with BlockingProducer(None, **keys) as producer, BlockingConsumer([_TOPIC], **keys, **group) as consumer:
        producer.send(_TOPIC, b"ours").result(_TIMEOUT_S)
        assert b"ours" in (record.value for record in consumer)


def test_our_clients_log_in_with_a_ticket(kerberos: Kerberos) -> None:
    keytab = ["kinit", "-k", "-t", str(kerberos.folder / "alice.keytab"), kerberos.alice]
    subprocess.run(keytab, check=True, env=os.environ)
    keys = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": f"{_MODULE} required useTicketCache=true;"}  # fmt: skip
    with BlockingProducer(None, **{"bootstrap.servers": kerberos.bootstrap, **keys}) as producer:
        producer.send(_TOPIC, b"ticket").result(_TIMEOUT_S)


def test_a_client_that_had_a_ticket_waits_for_another(kerberos: Kerberos, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    login = KerberosLogin("kafka", cache=cache)
    kinit = ["kinit", "-k", "-t", str(kerberos.folder / "alice.keytab"), "-c", cache]
    with pytest.raises(SaslAuthenticationFailed):
        gssapi_client(login, _HOST)
    subprocess.run([*kinit, kerberos.alice], check=True)
    assert next(gssapi_client(login, _HOST))
    Path(cache).unlink()
    with pytest.raises(library.TicketUnavailable):
        gssapi_client(login, _HOST)
    subprocess.run([*kinit, kerberos.alice], check=True)
    assert next(gssapi_client(login, _HOST))


def test_who_has_no_key_is_not_let_in(kerberos: Kerberos) -> None:
    keys = kerberos.login(f"kafka/{_HOST}@{kerberos.alice.partition('@')[2]}", "alice.keytab")
    with (
        BlockingProducer(None, **{"bootstrap.servers": kerberos.bootstrap, **keys}) as producer,
        pytest.raises(KafkaError, match="GSSAPI"),
    ):
        producer.send(_TOPIC, b"stranger").result(_TIMEOUT_S)


def test_another_principal_is_another_user(kerberos: Kerberos) -> None:
    keys = kerberos.login(kerberos.alice.replace("alice", "bob"), "bob.keytab")
    with (
        BlockingProducer(None, **{"bootstrap.servers": kerberos.bootstrap, **keys}) as producer,
        pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"),
    ):
        producer.send(_TOPIC, b"bob").result(_TIMEOUT_S)


def test_a_producer_logs_in_again_before_its_session_ends(
    kerberos: Kerberos, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, renewed = SaslAuthentication._authenticate_again, list[SaslAuthentication]()

    async def counted(authentication: SaslAuthentication) -> None:
        await again(authentication)
        renewed.append(authentication)

    monkeypatch.setattr(SaslAuthentication, "_authenticate_again", counted)
    keys: dict[str, Any] = {"bootstrap.servers": kerberos.bootstrap, **kerberos.login(kerberos.alice, "alice.keytab")}
    with BlockingProducer(None, **keys) as producer:
        producer.send(_TOPIC, b"first").result(_TIMEOUT_S)
        wait_until(lambda: len(renewed) > 1, _TIMEOUT_S, "other logins")
        producer.send(_TOPIC, b"second").result(_TIMEOUT_S)
    assert "does not log in again" not in kerberos.log


def test_a_session_is_renewed_by_its_own_principal_only(kerberos: Kerberos) -> None:
    """A session is renewed at most once a second."""
    with SaslProbe(kerberos.port) as probe:
        assert probe.exchange("GSSAPI", kerberos.messages()) == (0, "", b"", 3)
        renewed = (0, "", b"", 3)
        wait_until(lambda: probe.exchange("GSSAPI", kerberos.messages()) == renewed, _TIMEOUT_S, "another login")
        taken_over: list[Any] = []

        def take_over() -> bool:
            taken_over[:] = probe.exchange("GSSAPI", kerberos.messages(principal="alan"))
            return bool(taken_over[0] != ErrorCode.ILLEGAL_SASL_STATE)

        wait_until(take_over, _TIMEOUT_S, "a login of another")
    assert taken_over[:2] == [
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Cannot change principals during re-authentication from User.ALICE: User.ALAN",
    ]


def test_a_refused_ticket_is_logged_with_its_reason(kerberos: Kerberos) -> None:
    """The broker's keytab has no key of the service."""
    with SaslProbe(kerberos.port) as probe:
        code, told, *_ = probe.exchange("GSSAPI", kerberos.messages("other"))
    assert (code, "due to invalid credentials" in told) == (ErrorCode.SASL_AUTHENTICATION_FAILED, True)
    assert "Failed authentication with 127.0.0.1: GSSAPI: Major" in kerberos.log


def test_a_replayed_ticket_gets_no_response_so_that_clients_try_again(kerberos: Kerberos) -> None:
    ticket = next(kerberos.messages())
    answers = []
    for _ in range(2):
        with SaslProbe(kerberos.port) as probe:
            assert probe.handshake("GSSAPI")[0] == 0
            answers.append(probe.authenticate(ticket))
    assert answers[0][0] == 0 and answers[1] == CLOSED
    assert "Request is a replay" in kerberos.log


def test_a_producer_waits_for_the_kerberos_server(kerberos: Kerberos, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[Exception] = []
    failure = library._client_failure

    def noted(*args: Any, **options: Any) -> Exception:
        failed.append(failure(*args, **options))
        return failed[-1]

    monkeypatch.setattr(library, "_client_failure", noted)
    principal = kerberos.alice.replace("alice", "alan")
    keys: dict[str, Any] = {"bootstrap.servers": kerberos.bootstrap, **kerberos.login(principal, "alan.keytab")}
    library._free_caches.clear()  # discards the tickets of earlier logins
    kerberos.realm.stop_kdc()
    with BlockingProducer(None, **keys) as producer, ThreadPoolExecutor(1) as pool:
        try:
            sending = pool.submit(producer.send, _TOPIC, b"patient")  # the producer waits for the topic's metadata
            wait_until(lambda: bool(failed), _TIMEOUT_S, "a login without the server")
        finally:
            kerberos.realm.start_kdc()
        sending.result(_TIMEOUT_S).result(_TIMEOUT_S)
    assert {type(each) for each in failed} == {library.TicketUnavailable}


def test_spark_writes_and_reads(kerberos: Kerberos) -> None:
    """Driver and executors each log in with the keytab."""
    stop_shared()
    spark = spark_session("kerberos", "local[2]", {"spark.ui.enabled": "false"})
    try:
        keys = {"bootstrap.servers": kerberos.bootstrap, **kerberos.login(kerberos.alice, "alice.keytab")}
        given = {f"kafka.{key}": value for key, value in keys.items()}
        rows = spark.range(10).selectExpr("concat('spark-', id) as value").write.format("kafka_zk")
        rows.options(**given, topic=_TOPIC).mode("append").save()
        frame = spark.read.format("kafka_zk").options(**given, subscribe=_TOPIC).load()
        assert frame.filter("cast(value as string) like 'spark-%'").count() == 10
    finally:
        spark.stop()


def test_kcat_logs_in(kerberos: Kerberos) -> None:
    keys = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "GSSAPI", "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.keytab": str(kerberos.folder / "alice.keytab"),
            "sasl.kerberos.principal": kerberos.alice}  # fmt: skip
    options = [word for key, text in keys.items() for word in ("-X", f"{key}={text}")]
    command = ["kcat", "-b", kerberos.bootstrap, *options, "-t", _TOPIC]
    subprocess.run([*command, "-P"], input="kcat\n", text=True, timeout=_TIMEOUT_S, check=True)
    read = subprocess.run(
        [*command, "-C", "-o", "beginning", "-e"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
    )
    assert "kcat" in read.stdout.splitlines()


@pytest.mark.parametrize("version", [jars.ORACLE_VERSION, jars.NEWEST_VERSION])
def test_tools_of_java_log_in(kerberos: Kerberos, version: str, tmp_path: Path) -> None:
    tools = KafkasTools(version, tmp_path)
    try:
        keys = kerberos.login(kerberos.alice, "alice.keytab")
        login = Login(kerberos.bootstrap, "GSSAPI", "", "", "", False, "", "", keys)
        tools.round_trip(login, _TOPIC, f"java-{version}")
    finally:
        tools.close()
