"""TLS transports for clients and listeners: ``FrameTransport``'s queue, encrypted by OpenSSL in memory.

``ssl.SSLObject`` between two memory BIOs is the fastest TLS in Python: one system call moves many records. The
transport encrypts one part of the queue at a time. That part stays queued until the socket has accepted its ciphertext,
so queue sizes count plaintext.

The protocol is connected before the handshake; data that it writes wait until the handshake has succeeded. A failed
handshake closes the connection with ``SslAuthenticationFailed``. The socket is read only after all received data were
delivered. So at most ``_RECEIVE_BYTES`` and one TLS record stay encrypted during a pause, and the end of the connection
is reported after all data. Imported on demand, because it loads OpenSSL.
"""

import contextlib
import os
import ssl
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

from twisted.internet import main, tcp
from twisted.internet.error import ConnectError, ConnectionLost
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_zk.network.transport import (
    MAX_RUN,
    RECEIVE_BUFFER_BYTES,
    SEND_LIMIT_BYTES,
    FrameConnector,
    FrameTransport,
    SliceInQueue,
    receive_buffer,
    release_slices,
)
from kafka_zk.security.tls import client_context, closed_early, handshake_failure
from kafka_zk.security.tls_settings import TlsSettings

ENCRYPT_BYTES = 64 * 1024
"""Maximum part of the queue that is encrypted at a time."""

_RECEIVE_BYTES = 96 * 1024
"""Enough for the five encrypted batches of 16 KB that a producer may have in flight."""

_DECRYPT_BYTES = 32 * 1024
"""Maximum part of the received bytes that OpenSSL gets at a time. OpenSSL's buffer never shrinks while the connection
is open, and a small buffer stays in the processor's cache."""

_HANDSHAKE_RECEIVE_BYTES = 16 * 1024
_MOST_CONTROL_BYTES = 16 * 1024
"""Maximum size of OpenSSL's own unsent messages. A peer could add to them without limit by requesting new keys
(KeyUpdate) without reading."""

_NOTHING = memoryview(b"")
_log = Logger()
_plain_buffers: "WeakKeyDictionary[Any, memoryview]" = WeakKeyDictionary()  # by reactor, so one per thread


def _plain_buffer(reactor: Any) -> memoryview:
    buffer = _plain_buffers.get(reactor)
    if buffer is None:
        buffer = _plain_buffers[reactor] = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
    return buffer


def _read(item: SliceInQueue, size_bytes: int) -> bytes:
    """Read the next ``size_bytes`` of the slice. Raises OSError, also if its file was truncated."""
    data = os.pread(item.file_slice.fileno(), size_bytes, item.position)
    if len(data) < size_bytes:
        raise OSError("a file is shorter than the slice of it that is being sent")
    return data


class ClosedEarly(ConnectionLost):
    """The broker sent nothing but the handshake before it closed the connection."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self._sentence = sentence

    def __str__(self) -> str:
        return self._sentence


class TlsFrameTransport(FrameTransport):
    """Mixin for Twisted's TCP transports."""

    def _set_up_tls(self, context: ssl.SSLContext, *, server_hostname: str | None = None) -> None:
        """Call this once, first. ``server_hostname``: the server's name, for a client; None for a server."""
        self._queue = deque()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_hostname is None, server_hostname=server_hostname
        )
        self._handshaking = True
        self._is_paused = False
        self._has_received = False  # application data
        self._has_failed = False  # OpenSSL reports an error, or the peer's end, at the next read
        self._received_ciphertext = _NOTHING  # in the shared buffer, only during this turn; not yet passed to OpenSSL
        self._ciphertext = _NOTHING  # not accepted by the socket yet
        self._encrypted_bytes = 0  # plaintext bytes at the queue's head, in ``_ciphertext``
        self._control_bytes = 0  # number of bytes of the ciphertext that are OpenSSL's own messages

    def _failure(self, error: BaseException) -> Exception:
        raise NotImplementedError

    def _closed_early(self) -> Exception:
        """The error for a connection that the peer closed before it sent application data."""
        return self._failure(ssl.SSLEOFError()) if self._handshaking else main.CONNECTION_LOST

    def _handshake_done(self) -> None:
        """Called when the handshake has succeeded."""

    # --- the handshake ---

    def _shake_hands(self) -> Exception | None:
        """Run one step. Returns like ``_received``."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLError, ValueError) as error:
            self._take_control()
            self._send_control()  # the alert, so that the broker can log the reason
            return self._failure(error)
        else:
            self._handshaking = False
            self._handshake_done()
        self._take_control()
        self._control_bytes = 0  # a certificate chain may be longer than the limit
        self.startWriting()
        return None

    def _take_control(self) -> None:
        control = self._outgoing.read()
        if control:
            self._control_bytes += len(control)
            self._ciphertext = memoryview(bytes(self._ciphertext) + control)

    def _send_control(self) -> None:
        with contextlib.suppress(OSError):  # doWrite will raise it again
            self._send_ciphertext()

    def _send_ciphertext(self) -> int:
        sent = self.socket.send(self._ciphertext)
        self._ciphertext = self._ciphertext[sent:]
        if not self._ciphertext:
            self._ciphertext = _NOTHING
            self._control_bytes = 0
        return sent

    # --- sending ---

    def _try_to_send(self, data: bytes) -> int:
        if self._handshaking or self._ciphertext or len(data) > ENCRYPT_BYTES:
            return 0
        self._tls.write(data)
        ciphertext = self._outgoing.read()
        try:
            sent = self.socket.send(ciphertext)
        except OSError:  # doWrite will raise it again
            sent = 0
        if sent == len(ciphertext):
            return len(data)
        self._encrypted_bytes = len(data)
        self._ciphertext = memoryview(ciphertext)[sent:]
        return 0  # the caller queues the data; ``_encrypted_bytes`` marks them as encrypted

    def _encrypt(self, data: bytes | memoryview) -> None:
        """The previous ciphertext must have been sent."""
        self._tls.write(data)
        self._encrypted_bytes = len(data)
        self._ciphertext = memoryview(self._outgoing.read())

    def doWrite(self) -> Any:
        """Like ``FrameTransport.doWrite``, after the handshake and OpenSSL's own messages."""
        if not self.connected:  # a read in the same turn closed the connection
            return None
        if self._ciphertext and not self._encrypted_bytes:
            ended = self._write_control()
            if ended is not None or self._ciphertext:
                return ended
        if self._handshaking:
            if self.disconnecting:
                return main.CONNECTION_DONE
            self.stopWriting()
            return None
        ended = super().doWrite()
        return self._read_alert() if ended is main.CONNECTION_LOST else ended

    def _write_control(self) -> Exception | None:
        try:
            self._send_ciphertext()
        except BlockingIOError:
            return None
        except OSError:
            return self._read_alert()
        return None

    def _read_alert(self) -> Exception:
        """Read once more after the peer stopped receiving: its last message may be the alert."""
        reason: Any = self.doRead()
        return reason if isinstance(reason, Exception) else main.CONNECTION_LOST

    def _send_queue(self) -> Exception | None:
        if self._handshaking:
            return None
        budget_bytes = SEND_LIMIT_BYTES
        try:
            while budget_bytes > 0:
                if self._ciphertext:
                    budget_bytes -= self._send_ciphertext()
                    continue
                if self._encrypted_bytes:
                    self._remove(self._encrypted_bytes)
                if not self._queue:
                    return None
                self._encrypt(self._head())
        except BlockingIOError:
            return None
        except (OSError, ValueError):  # also raised if a slice's file was truncated
            return main.CONNECTION_LOST
        return None

    @property
    def queued_memory_bytes(self) -> int:
        """Memory held by the queue (without slices) and its ciphertext."""
        return super().queued_memory_bytes + len(self._ciphertext)

    def _head(self) -> bytes | memoryview:
        """The beginning of the queue, at most ENCRYPT_BYTES."""
        first = self._queue[0]
        if not isinstance(first, memoryview) and first.remaining_bytes >= ENCRYPT_BYTES:
            return _read(first, ENCRYPT_BYTES)
        pieces: list[bytes | memoryview] = []
        room_bytes = ENCRYPT_BYTES
        for item in islice(self._queue, MAX_RUN):
            if isinstance(item, memoryview):
                piece: bytes | memoryview = item if len(item) <= room_bytes else item[:room_bytes]
            else:
                piece = _read(item, min(item.remaining_bytes, room_bytes))
            pieces.append(piece)
            room_bytes -= len(piece)
            if not room_bytes:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _remove(self, count: int) -> None:
        self._encrypted_bytes = 0
        self.queued_size_bytes -= count
        self._sent_bytes += count
        queue = self._queue
        if not self.queued_size_bytes:
            release_slices(queue)
            queue.clear()
            return
        first = queue[0]
        if not isinstance(first, memoryview) and count < first.remaining_bytes:
            first.position += count
            first.remaining_bytes -= count
            return
        while count:
            item = queue[0]
            size_bytes = len(item) if isinstance(item, memoryview) else item.remaining_bytes
            if isinstance(item, memoryview):
                queue[0] = item[count:]
            else:
                item.position += min(count, size_bytes)
                item.remaining_bytes -= min(count, size_bytes)
            if size_bytes <= count:
                queue.popleft()
                if not isinstance(item, memoryview):
                    item.file_slice.release()
            count -= min(count, size_bytes)

    def _postLoseConnection(self) -> Exception:
        with contextlib.suppress(ssl.SSLError, ValueError):  # our close_notify is written; unwrap waits for the peer's
            self._tls.unwrap()
        self._take_control()
        self._send_control()
        return main.CONNECTION_DONE

    # --- receiving ---

    def pauseProducing(self) -> None:
        self._is_paused = True
        super().pauseProducing()  # type: ignore[no-untyped-call]

    def resumeProducing(self) -> None:
        """Decrypt the data received during the pause in the next turn, before receiving more."""
        self._is_paused = False
        if self._has_rest:
            self.reactor.callLater(0, self._deliver_rest)
        else:
            self._read_on()

    @property
    def _has_rest(self) -> bool:
        return bool(self._incoming.pending or self._received_ciphertext or self._tls.pending() or self._has_failed)

    def _deliver_rest(self) -> None:
        self._run_guarded(self._received)
        self._read_on()

    def _read_on(self) -> None:
        if self.connected and not self._is_paused and not self.disconnecting:
            super().resumeProducing()  # type: ignore[no-untyped-call]

    def _run_guarded(self, step: Callable[[], Exception | None]) -> None:
        """Run ``step`` outside of ``doRead``: an exception closes only this connection."""
        if not self.connected or self._aborting or self._is_paused:
            return
        try:
            ended = step()
        except Exception:
            _log.failure("{peer} closed", peer=self.getPeer())
            ended = main.CONNECTION_LOST
        if ended is not None:
            self.connectionLost(Failure(ended))

    def doRead(self) -> Any:
        try:
            buffer = receive_buffer(self.reactor)
            count = self.socket.recv_into(buffer, _HANDSHAKE_RECEIVE_BYTES if self._handshaking else _RECEIVE_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return self._lost()
        if not count:
            return self._lost()
        received = buffer[:count]
        if self._handshaking or count <= _DECRYPT_BYTES:
            self._incoming.write(received)
            return self._received()
        self._received_ciphertext = received
        try:
            return self._received()
        finally:
            self._incoming.write(self._received_ciphertext)  # left by a pause; the next turn reuses the shared buffer
            self._received_ciphertext = _NOTHING

    def _received(self) -> Exception | None:
        """Returns the exception that closes the connection, or None."""
        return self._go_on()

    def _go_on(self) -> Exception | None:
        """Continue the handshake and decrypt, as far as the received data allow."""
        if self._handshaking:
            error = self._shake_hands()
            if error is not None or self._handshaking:
                return error
        try:
            self._deliver()
        except ssl.SSLZeroReturnError:
            return main.CONNECTION_DONE
        except ssl.SSLError as error:
            return self._failure(error)
        finally:
            if self._outgoing.pending:
                self._take_control()
                self.startWriting()
        if self._control_bytes > _MOST_CONTROL_BYTES:
            return self._failure(ssl.SSLError("the peer keeps requesting new keys (KeyUpdate) but does not read"))
        return None

    def _lost(self) -> Exception:
        return main.CONNECTION_LOST if self._has_received else self._closed_early()

    def _deliver(self) -> None:
        """Deliver decrypted data. The rest of a big frame goes directly into its buffer.

        OpenSSL is not called when no data are left, because its error costs as much as a small record.
        """
        buffer = _plain_buffer(self.reactor)
        while self._has_rest and self.connected and not self._aborting and not self._is_paused:
            decoder = self._decoder
            target = self._rest_of_big_frame(decoder) if decoder is not None else None
            room = buffer if decoder is None else buffer[: self._pool.receive_bytes or None]
            count = self._decrypt(room if target is None else target)
            if count == 0:
                return
            self._has_received = True
            if target is not None:
                assert self._received_frame_part is not None
                self._received_frame_part(count)
            else:
                self.protocol.dataReceived(buffer[:count])  # type: ignore[call-arg,misc]

    def _decrypt(self, target: memoryview) -> int:
        """Decrypt into ``target`` until it is full or no record is left."""
        tls, incoming = self._tls, self._incoming
        filled = 0
        try:
            while True:
                if not incoming.pending and self._received_ciphertext:
                    incoming.write(self._received_ciphertext[:_DECRYPT_BYTES])
                    self._received_ciphertext = self._received_ciphertext[_DECRYPT_BYTES:]
                try:
                    count = tls.read(len(target) - filled, target[filled:])
                except ssl.SSLWantReadError:
                    if not self._received_ciphertext:
                        break
                    continue
                if not count:  # close_notify
                    raise ssl.SSLZeroReturnError
                filled += int(count)
                if filled == len(target) or not self._has_rest:
                    break
        except ssl.SSLError:
            self._has_failed = True
            if not filled:  # otherwise return the data; the next call raises the error
                raise
        return filled


class TlsFrameClient(TlsFrameTransport, tcp.Client):
    """Raises ConnectError for a host name that TLS does not allow."""

    def __init__(self, settings: TlsSettings, host: str, *args: Any) -> None:
        self._settings = settings
        try:
            self._set_up_tls(client_context(settings), server_hostname=host)
        except ValueError as error:  # an empty name, or one that begins with a dot
            raise ConnectError(string=f"{host!r} is not a valid host name for TLS: {error}") from None
        tcp.Client.__init__(self, *args)

    def _connectDone(self) -> None:
        super()._connectDone()  # type: ignore[no-untyped-call]
        if self.connected and not self._aborting:
            ended = self._shake_hands()
            if ended is not None:
                self.connectionLost(Failure(ended))

    def _failure(self, error: BaseException) -> Exception:
        peer: Any = self.connector
        return handshake_failure(error, f"{peer.host}:{peer.port}", self._settings)

    def _closed_early(self) -> Exception:
        return ClosedEarly(closed_early(self._settings, in_handshake=self._handshaking))


class TlsConnector(FrameConnector):
    """Raises InvalidSecurity."""

    def __init__(self, settings: TlsSettings, *args: Any) -> None:
        client_context(settings)
        self._settings = settings
        super().__init__(*args)

    def _makeTransport(self) -> tcp.Client:
        return TlsFrameClient(self._settings, self.host, self.host, self.port, self.bindAddress, self, self.reactor)
