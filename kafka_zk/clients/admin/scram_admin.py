"""Administration of SCRAM users (KIP-554); ``blocking_admin`` is the version for threads.

The controller writes a change to ZooKeeper, and the brokers follow within a second. A password is salted here, so a
broker never receives it.

Source: KafkaAdminClient.alterUserScramCredentials@3.9.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.errors import raise_error_in
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.security.scram import MECHANISM_NUMBERS, SaltedPassword, ScramLogin

_Describe = codec.request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
_Alter = codec.request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
_MECHANISMS = {number: name for name, number in MECHANISM_NUMBERS.items()}

AskController = Callable[[ApiKey, Any, Callable[[Any], Sequence[int]]], Awaitable[Any]]
"""Takes an API, a request, and a function from a response to its error codes; returns the controller's response."""


class ScramAdmin:
    """The ``scram`` of an ``Admin``. Every method may raise BrokerError with Kafka's code, such as
    CLUSTER_AUTHORIZATION_FAILED."""

    def __init__(self, cluster: Cluster, ask_controller: AskController) -> None:
        self._cluster = cluster
        self._ask_controller = ask_controller

    async def list_users(self) -> list[ScramLogin]:
        """All users that have a credential, one entry for each mechanism, sorted."""
        answer = await self._cluster.request_any(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, _Describe(users=None))
        raise_error_in(answer, "listing users")
        found = []
        for result in answer.results:
            raise_error_in(result, f"describing the user {result.user}")
            found += [
                ScramLogin(result.user, _MECHANISMS.get(info.mechanism, f"mechanism {info.mechanism}"), info.iterations)
                for info in result.credential_infos
            ]
        return sorted(found)

    async def set_password(self, user: str, password: SaltedPassword) -> None:
        """Let a user log in with this password and its mechanism; creates the user. Credentials for other mechanisms
        stay.

        Raises: BrokerError UNACCEPTABLE_CREDENTIAL; KafkaTimeoutError.
        """
        upsertion = _Alter.ScramCredentialUpsertion(
            name=user,
            mechanism=MECHANISM_NUMBERS[password.mechanism],
            iterations=password.iterations,
            salt=password.salt,
            salted_password=password.salted,
        )
        await self._alter(user, _Alter(upsertions=[upsertion]))

    async def remove_passwords(self, user: str, mechanisms: Iterable[str]) -> None:
        """Remove the user's credentials for all of these mechanisms, or for none.

        Raises: BrokerError RESOURCE_NOT_FOUND if one does not exist; KafkaTimeoutError.
        """
        deletion = _Alter.ScramCredentialDeletion
        deletions = [deletion(name=user, mechanism=MECHANISM_NUMBERS[mechanism]) for mechanism in mechanisms]
        await self._alter(user, _Alter(deletions=deletions))

    async def _alter(self, user: str, message: Any) -> None:
        answer = await self._ask_controller(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, message, lambda answer: [each.error_code for each in answer.results]
        )
        for result in answer.results:
            raise_error_in(result, f"changing the user {user}")
