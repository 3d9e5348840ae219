"""A TCP proxy in front of a broker or ZooKeeper, for tests."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Container, Coroutine
from typing import Any, Self, TypeVar

from kafka_zk.embedded.ports import LOCALHOST

CHUNK_BYTES = 65_536
CALL_TIMEOUT_S = 10
END_TIMEOUT_S = 0.5
"""Time for connections to end when the proxy stops; then delayed chunks are given up."""

T = TypeVar("T")


class TcpProxy:
    """Listens on 127.0.0.1 and forwards every connection to a target, with faults on demand. Thread-safe.

    Its event loop runs in a daemon thread. Methods return when their effect has happened.
    """

    def __init__(self, target_host: str, target_port: int) -> None:
        self._target = (target_host, target_port)
        self.port = 0
        self.delay_s = 0.0
        """Delay of every chunk in both directions."""
        self.delay_s_from: Callable[[int], float] = lambda port: 0.0
        """Delay of chunks on connections from a local port. Called for each chunk, on the proxy's thread."""
        self.on_first_chunk: Callable[[bytes], bytes] = bytes
        """Transforms a new connection's first chunk for the target."""
        self.refuses: Callable[[int], bool] = lambda port: False
        """Called with a new connection's local port, on the proxy's thread; if it returns True, the connection is
        reset."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    @property
    def address(self) -> str:
        return f"{LOCALHOST}:{self.port}"

    def start(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def stop(self) -> None:
        """The proxy cannot be started again."""
        if self._thread.is_alive():
            self._call(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        if not self._loop.is_closed():
            self._loop.close()

    def cut(self) -> None:
        """Reset all connections and refuse new ones, until ``restore``."""
        self._call(self._close_all())

    def restore(self) -> None:
        """Accept connections again on the same port, and resume frozen ones."""
        self._call(self._restore())

    def freeze(self) -> None:
        """Keep connections open but forward nothing until ``restore``, like a network that drops packets."""
        self._call(self._set_flowing(False))

    def drop_connections(self) -> None:
        """Reset all connections; new ones are accepted."""
        self._call(self._abort_connections())

    def drop_connections_from(self, ports: Container[int]) -> None:
        """Reset the connections from these local ports; new ones are accepted unless ``refuses`` rejects them."""
        self._call(self._abort_connections_from(ports))

    def connection_count(self) -> int:
        return len(self._writers) // 2

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_TIMEOUT_S)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._forward, LOCALHOST, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _restore(self) -> None:
        self._flowing.set()
        await self._listen()

    async def _set_flowing(self, flowing: bool) -> None:
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def _close_all(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._abort_connections()

    async def _end(self) -> None:
        """Reset all connections, also those that are being made: a socket left open would be a ResourceWarning."""
        self._flowing.set()
        await self._close_all()
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            _, delayed = await asyncio.wait(tasks, timeout=END_TIMEOUT_S)
            for task in delayed:
                task.cancel()
            await asyncio.gather(*delayed, return_exceptions=True)

    async def _abort_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _abort_connections_from(self, ports: Container[int]) -> None:
        for writer in self._writers:
            if writer.get_extra_info("peername")[1] in ports:
                writer.transport.abort()  # the pump then ends the other side

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses(writer.get_extra_info("peername")[1]):
            writer.transport.abort()
            return
        try:
            target_reader, target_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        if self._server is None:  # the proxy was cut during the connect
            writer.transport.abort()
            target_writer.transport.abort()
            return
        pair = {writer, target_writer}
        self._writers |= pair
        port = writer.get_extra_info("peername")[1]
        await asyncio.gather(
            self._pump(reader, target_writer, port, self.on_first_chunk),
            self._pump(target_reader, writer, port, bytes),
        )
        self._writers -= pair

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, change: Callable[[bytes], bytes]
    ) -> None:
        """Forward until either side ends, then close the other. ``change`` transforms the first chunk.

        ``port``: local port of the connection's client.
        """
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                chunk, change = change(chunk), bytes
                if (delay_s := max(self.delay_s, self.delay_s_from(port))) > 0:
                    await asyncio.sleep(delay_s)
                await self._flowing.wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()
