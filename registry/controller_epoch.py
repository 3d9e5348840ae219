"""The newest controller epoch in ZooKeeper, which confirms that a request's controller was elected.

Source: KafkaController.elect in Kafka 3.9, which writes ``/controller_epoch`` before its first request.
"""

from twisted.internet.defer import DeferredLock

from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.session import retry_until_connected
from kafka_zk.registry.znodes.controller import CONTROLLER_EPOCH, decode_epoch

NO_EPOCH = -1


class ControllerEpochs:
    """The last value read from ``/controller_epoch``. A larger epoch causes another read."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._lock = DeferredLock()
        self._reads_begun = 0
        self.newest = NO_EPOCH

    async def confirm(self, epoch: int) -> bool:
        """True if a controller with that epoch was elected. An epoch above ``newest`` causes a read of ZooKeeper,
        repeated after connection losses; concurrent callers share a read.

        Raises: RegistryError (SessionLost, NoNode, NoAuth, InvalidZnode) if ZooKeeper's epoch cannot be read.
        """
        begun_before = self._reads_begun
        if epoch > self.newest:
            async with self._lock:
                if epoch > self.newest and self._reads_begun == begun_before:
                    self._reads_begun += 1
                    self.newest = max(self.newest, await retry_until_connected(self._client, self._read))
        return epoch <= self.newest

    async def _read(self) -> int:
        await self._client.sync()  # this server may lag behind the controller's server
        return decode_epoch((await self._client.get(CONTROLLER_EPOCH))[0])
