"""One client's login at a broker: the states, and the two sides of each mechanism together."""

import pytest

from kafka_zk.security import scram
from kafka_zk.security.listener_sasl import ListenerSasl
from kafka_zk.security.password import Password
from kafka_zk.security.plain import plain_client
from kafka_zk.security.sasl_server import Login, SaslListener, SaslServer, SaslState, UnexpectedRequest
from kafka_zk.security.scram import ScramCredential, TokenCredential
from kafka_zk.security.token_validation import UnsecuredTokens
from kafka_zk.security.unsecured_jws import encode

SECRET = b"of the cluster"
NOW_MS = 1000
CREDENTIALS = {
    (mechanism, "alice"): scram.credential(
        mechanism, scram.salted_password(mechanism, "right", b"salt", 4096), b"salt", 4096
    )
    for mechanism in scram.MECHANISMS
}
HIDDEN = "Authentication failed during authentication due to invalid credentials with SASL mechanism "


class Users:
    """alice, and her token ``token``, whose password is ``right`` as well."""

    def find(self, mechanism: str, user: str) -> ScramCredential:
        return CREDENTIALS.get((mechanism, user)) or scram.invented_credential(mechanism, user, SECRET)

    def find_token(self, mechanism: str, token_id: str) -> TokenCredential:
        if token_id == "token":
            return TokenCredential(CREDENTIALS[mechanism, "alice"], "alice", 5000)
        return TokenCredential(scram.invented_credential(mechanism, token_id, SECRET))


def server(*mechanisms: str) -> SaslServer:
    sasl = ListenerSasl(mechanisms, {"bob": Password("pw")}, tokens=UnsecuredTokens({}))
    return SaslServer(SaslListener(sasl, Users(), lambda: "servernonce", lambda: NOW_MS))


def log_in(
    made: SaslServer, mechanism: str, user: str, password: str, *, is_token: bool = False
) -> str | None:
    """Returns the reason of the failure."""
    assert made.handshake(mechanism)
    if mechanism == "PLAIN":
        client = plain_client(user, password)
    else:
        client = scram.scram_client(mechanism, user, password, "clientnonce", is_token=is_token)
    message = next(client)
    while True:
        reply = made.authenticate(message)
        if reply.failure is not None:
            return reply.failure
        try:
            message = client.send(reply.challenge)
        except StopIteration:
            return None


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
def test_scram_proves_both_sides(mechanism: str) -> None:
    made = server(mechanism)
    assert log_in(made, mechanism, "alice", "right") is None
    assert (made.state, made.login) == (SaslState.DONE, Login("alice", mechanism))


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "right")])
def test_a_wrong_password_and_an_unknown_user_look_the_same(mechanism: str, user: str, password: str) -> None:
    """Both fail at the last step, with the same words."""
    made = server(mechanism)
    assert log_in(made, mechanism, user, password) == HIDDEN + mechanism
    assert (made.state, made.login) == (SaslState.FAILED, None)


def test_plain() -> None:
    made = server("PLAIN")
    assert log_in(made, "PLAIN", "bob", "pw") is None and made.login == Login("bob", "PLAIN")
    for user, password in (("bob", "wrong"), ("nobody", "pw")):
        assert log_in(server("PLAIN"), "PLAIN", user, password) == "Authentication failed: Invalid username or password"


def test_a_mechanism_that_is_not_enabled_ends_the_login() -> None:
    made = server("SCRAM-SHA-256")
    assert not made.handshake("PLAIN")
    assert made.state is SaslState.FAILED


def test_nothing_follows_a_failure() -> None:
    made = server("PLAIN")
    log_in(made, "PLAIN", "bob", "wrong")
    for step in (made.api_versions, lambda: made.handshake("PLAIN"), lambda: made.authenticate(b"\0bob\0pw")):
        with pytest.raises(UnexpectedRequest):
            step()


def test_requests_out_of_order_are_refused() -> None:
    made = server("PLAIN")
    with pytest.raises(UnexpectedRequest):
        made.authenticate(b"\0bob\0pw")
    made.api_versions()
    made.versions_sent()
    with pytest.raises(UnexpectedRequest):
        made.api_versions()
    made.handshake("PLAIN")
    with pytest.raises(UnexpectedRequest):
        made.handshake("PLAIN")


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
def test_a_delegation_token_lets_its_owner_in(mechanism: str) -> None:
    made = server(mechanism)
    assert log_in(made, mechanism, "token", "right", is_token=True) is None
    assert made.login == Login("alice", mechanism, 5000, is_token=True)
    assert made.lifetime_ms() == 4000
    assert log_in(made.again(), mechanism, "alice", "right") is None, "the same user, with a password"


def test_neither_is_a_tokens_id_a_user_nor_a_users_name_a_token() -> None:
    for user, is_token in (("token", False), ("alice", True), ("nobody", True)):
        made = server("SCRAM-SHA-256")
        assert log_in(made, "SCRAM-SHA-256", user, "right", is_token=is_token) == HIDDEN + "SCRAM-SHA-256"


@pytest.mark.parametrize("message", [b"", b"\xff", b"n,,n=alice", b"y,,n=alice,r=x", b"n,,n=al=ice,r=x"])
def test_a_malformed_message_is_a_failure_that_says_nothing(message: bytes) -> None:
    made = server("SCRAM-SHA-256")
    made.handshake("SCRAM-SHA-256")
    assert made.authenticate(message).failure == HIDDEN + "SCRAM-SHA-256"


@pytest.mark.parametrize(
    ("expires_ms", "max_reauth_ms", "lifetime_ms"),
    [(None, 0, None), (None, 3000, 3000), (5000, 0, 4000), (5000, 3000, 3000), (2000, 3000, 1000), (500, 3000, 0)],
)
def test_a_session_lasts_as_long_as_both_limits_allow(
    expires_ms: int | None, max_reauth_ms: int, lifetime_ms: int | None
) -> None:
    assert Login("bob", "PLAIN", expires_ms).lifetime_ms(1000, max_reauth_ms) == lifetime_ms


def test_logging_in_again_needs_the_same_user_and_the_same_mechanism() -> None:
    made = server("PLAIN", "SCRAM-SHA-256")
    log_in(made, "PLAIN", "bob", "pw")
    assert log_in(made.again(), "PLAIN", "bob", "pw") is None
    assert log_in(made.again(), "PLAIN", "bob", "wrong") == "Authentication failed: Invalid username or password"
    other = made.again()
    assert other.handshake("SCRAM-SHA-256")
    reply = other.authenticate(b"n,,n=alice,r=abc")
    assert reply.failure is not None and "re-authentication of mechanism 'PLAIN'" in reply.failure
    assert not reply.is_told and other.state is SaslState.FAILED


def test_the_words_for_scram_say_that_the_client_logged_in_again() -> None:
    made = server("SCRAM-SHA-256")
    log_in(made, "SCRAM-SHA-256", "alice", "right")
    failure = log_in(made.again(), "SCRAM-SHA-256", "alice", "wrong")
    assert failure == HIDDEN.replace("authentication due", "re-authentication due") + "SCRAM-SHA-256"


def bearer(**claims: object) -> bytes:
    token = encode({"alg": "none"}, {"sub": "carol", "exp": 61, **claims})
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def test_a_bearer_token_lets_its_subject_in_until_it_expires() -> None:
    made = server("OAUTHBEARER")
    made.handshake("OAUTHBEARER")
    reply = made.authenticate(bearer())
    assert (reply.failure, reply.challenge) == (None, b"")
    assert made.login == Login("carol", "OAUTHBEARER", 61_000) and made.lifetime_ms() == 60_000
    again = made.again()
    again.handshake("OAUTHBEARER")
    change = again.authenticate(bearer(sub="eve")).failure
    assert change == "Cannot change principals during re-authentication from User.carol: User.eve"


def test_a_refused_bearer_token_is_explained_after_one_more_message() -> None:
    """The log has more details than the client receives."""
    made = server("OAUTHBEARER")
    made.handshake("OAUTHBEARER")
    reply = made.authenticate(bearer(exp=1))
    assert (reply.failure, reply.challenge, made.login) == (None, b'{"status":"invalid_token"}', None)
    reply = made.authenticate(b"\x01")
    assert (reply.failure, reply.reason) == ('{"status":"invalid_token"}', "the token has expired")
    assert made.state is SaslState.FAILED


def test_a_malformed_bearer_message_is_a_failure_that_says_nothing() -> None:
    made = server("OAUTHBEARER")
    made.handshake("OAUTHBEARER")
    assert made.authenticate(b"n,,").failure == HIDDEN + "OAUTHBEARER"


def test_a_class_of_the_user_looks_at_passwords() -> None:
    sasl = ListenerSasl(
        ("PLAIN",), {}, check_password=lambda user, password: user == password, blocking=frozenset({"PLAIN"})
    )
    for password, user in (("zoe", "zoe"), ("other", None)):
        made = SaslServer(SaslListener(sasl, Users(), lambda: "", lambda: NOW_MS))
        made.handshake("PLAIN")
        assert made.may_wait
        made.authenticate(f"\0zoe\0{password}".encode())
        assert (None if made.login is None else made.login.user) == user
