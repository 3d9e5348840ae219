"""SCRAM on both sides: RFC 7677's example, Kafka's znode, wrong passwords, unknown users, hostile peers."""

import base64
from dataclasses import replace

import pytest

from kafka_zk.security import scram
from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.scram import ScramCredential, ScramServer, scram_client

SALT = b"salt of sixteen."
MECHANISMS = pytest.mark.parametrize("mechanism", scram.MECHANISMS)


def credential(mechanism: str, password: str, iterations: int = 4096) -> ScramCredential:
    return scram.credential(
        mechanism, scram.salted_password(mechanism, password, SALT, iterations), SALT, iterations
    )


def log_in(mechanism: str, user: str, password: str, known: ScramCredential) -> None:
    """Raises: SaslAuthenticationFailed."""
    client = scram_client(mechanism, user, password, "client-nonce")
    server = ScramServer(mechanism, scram.client_first(next(client)), known, "server-nonce")
    final = server.final_message(client.send(server.first_message))
    with pytest.raises(StopIteration):
        client.send(final)


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = "r=rOprNGfwEbeRWgbNEkqO" + nonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    client = scram_client("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(client) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = client.send(first.encode())
    assert final.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    with pytest.raises(StopIteration):
        client.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    keys = scram.credential("SCRAM-SHA-256", scram.salted_password("SCRAM-SHA-256", "pencil", salt, 4096), salt, 4096)
    server = ScramServer("SCRAM-SHA-256", scram.client_first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"), keys, nonce)
    assert server.first_message == first.encode()
    assert server.final_message(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@MECHANISMS
@pytest.mark.parametrize("user", ["alice", "a=b,c", "émile"])
def test_a_user_logs_in(mechanism: str, user: str) -> None:
    log_in(mechanism, user, "pässword", credential(mechanism, "pässword"))


@MECHANISMS
def test_a_wrong_password_is_refused(mechanism: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match="Invalid client credentials"):
        log_in(mechanism, "alice", "wrong", credential(mechanism, "right"))


@MECHANISMS
def test_an_unknown_user_is_refused_at_the_last_step_and_sees_one_salt(mechanism: str) -> None:
    invented = scram.invented_credential(mechanism, "nobody", b"secret")
    with pytest.raises(SaslAuthenticationFailed, match="Invalid client credentials"):
        log_in(mechanism, "nobody", "x", invented)
    assert invented == scram.invented_credential(mechanism, "nobody", b"secret")
    assert invented.salt != scram.invented_credential(mechanism, "other", b"secret").salt
    assert invented.salt != scram.invented_credential(mechanism, "nobody", b"another cluster").salt


def test_the_znode_that_kafka_wrote() -> None:
    text = "salt=ODh2dTdy,stored_key=GKsV,server_key=owc2,iterations=4096"
    found = scram.decode_credential(text)
    assert found.salt == b"88vu7r"
    assert scram.encode_credential(found) == text


@pytest.mark.parametrize("text", ["", "salt=c2VjcmV0", "salt=c2VjcmV0,stored_key=?,server_key=x,iterations=4096"])
def test_a_damaged_znode_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="not a SCRAM credential") as refused:
        scram.decode_credential(text)
    assert "c2VjcmV0" not in str(refused.value)


def test_a_nonce_of_librdkafka_that_has_the_clients_part_twice_is_accepted() -> None:
    known = credential("SCRAM-SHA-256", "secret")
    client = scram_client("SCRAM-SHA-256", "alice", "secret", "cc")
    server = ScramServer("SCRAM-SHA-256", scram.client_first(next(client)), known, "ss")
    doubled = server.first_message.replace(b"r=cc", b"r=cccc", 1)
    final = client.send(doubled)
    with pytest.raises(SaslAuthenticationFailed, match="credentials"):  # the nonce is right, but the proof is wrong
        server.final_message(final)


def test_a_final_message_without_the_servers_nonce_is_refused() -> None:
    known = credential("SCRAM-SHA-256", "secret")
    server = ScramServer("SCRAM-SHA-256", scram.client_first(b"n,,n=alice,r=cc"), known, "ss")
    with pytest.raises(SaslAuthenticationFailed, match="nonce"):
        server.final_message(b"c=biws,r=cc,p=AAAA")


@pytest.mark.parametrize(
    "message",
    [b"", b"y,,n=a,r=c", b"p=tls-unique,,n=a,r=c", b"n,,n=,r=c", b"n,,n=a", b"n,,n=a=2D,r=c", b"n,a=b,n=a,r=c", b"\xff",
     b"n,,n=a,r=c,"],
)  # fmt: skip
def test_a_first_message_of_another_form_is_refused(message: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        scram.client_first(message)


def test_a_first_message_with_extensions() -> None:
    first = scram.client_first(b"n,a=a=2Cb,m=x,n=a=2Cb,r=c,tokenauth=true,other=1")
    assert first == scram.ClientFirst("a,b", "c", "m=x,n=a=2Cb,r=c,tokenauth=true,other=1", True)
    assert b"tokenauth=true" in next(scram_client("SCRAM-SHA-256", "id", "hmac", "c", is_token=True))


@pytest.mark.parametrize(
    "answer",
    [b"", b"r=other,s=YWJj,i=4096", b"r=cs,s=YWJj,i=4095", b"r=cs,s=YWJj,i=99999999999", b"r=cs,s=Y,i=4096", b"\xff"],
)
def test_a_client_refuses_what_no_server_says(answer: bytes) -> None:
    client = scram_client("SCRAM-SHA-256", "alice", "secret", "c")
    next(client)
    with pytest.raises(SaslAuthenticationFailed):
        client.send(answer)


@pytest.mark.parametrize("answer", [b"v=AAAA", b"e=other-error", b"", b"v=?"])
def test_a_client_refuses_a_server_that_does_not_know_the_password(answer: bytes) -> None:
    client = scram_client("SCRAM-SHA-256", "alice", "secret", "c")
    next(client)
    client.send(b"r=cs,s=YWJj,i=4096")
    with pytest.raises(SaslAuthenticationFailed):
        client.send(answer)


def test_a_credential_with_too_few_iterations_is_refused() -> None:
    weak = replace(credential("SCRAM-SHA-256", "secret"), iterations=4095)
    with pytest.raises(SaslAuthenticationFailed, match="4095"):
        ScramServer("SCRAM-SHA-256", scram.client_first(b"n,,n=alice,r=c"), weak, "s")


def test_keys_are_not_printed() -> None:
    known = credential("SCRAM-SHA-256", "secret")
    assert repr(known.stored_key) not in repr(known) and repr(known.server_key) not in repr(known)


def test_a_nonce_is_in_base_36() -> None:
    assert scram.nonce_text(0) == "0"
    assert scram.nonce_text(36 * 35 + 1) == "z1"
    assert len(scram.nonce_text((1 << scram.NONCE_BITS) - 1)) == 26
