"""What a transactional producer raises; an application needs to tell three cases apart.

- ``TransactionAbortable``: this transaction cannot be committed. Abort it (``with producer.transaction()`` has done so
  already), and continue with the same producer: repeat the work in a new transaction.
- ``ProducerFenced``: another producer with the same ``transactional.id`` has begun, or the coordinator has given this
  one up (``transaction.timeout.ms``). Close it and stop: another program may do its work now. The coordinator aborts
  the open transaction.
- ``TransactionFatal``: this producer is unusable; create a new one. ``ProducerFenced`` is a subclass.

Besides these, ``KafkaTimeoutError`` means that the outcome (committed or aborted) is still unknown: call the same
method again.

Source: KafkaProducer.java@3.9 (ProducerFencedException, TransactionAbortableException and what the documentation of
send and commitTransaction says of the others), KIP-691.
"""

from kafka_zk.clients.connection.errors import KafkaError


class TransactionAbortable(KafkaError):
    """This transaction can only be aborted; the producer remains usable."""


class TransactionFatal(KafkaError):
    """This producer can do nothing more: close it."""


class ProducerFenced(TransactionFatal):
    """Another producer with the same ``transactional.id`` does this work now: close this one and stop."""


class TransactionAborted(KafkaError):
    """A record that was not sent, because its transaction was aborted."""


class IllegalTransactionState(KafkaError):
    """The program calls the methods of a transactional producer in an invalid order.

    The message says what is wrong; the call changed nothing.
    """
