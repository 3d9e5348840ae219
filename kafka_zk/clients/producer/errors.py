"""The errors of a transactional producer. An application must distinguish three cases:

- ``TransactionAbortable``: this transaction cannot be committed. Abort it (``with producer.transaction()`` has already
  done so) and repeat the work in a new transaction of the same producer.
- ``ProducerFenced``: another producer with the same ``transactional.id`` has started, or the coordinator has given up
  this one (``transaction.timeout.ms``). Close it and stop, because another program may now do this work.
- ``TransactionFatal``: this producer is unusable; create a new one. ``ProducerFenced`` is a subclass.

``KafkaTimeoutError`` means that the outcome (committed or aborted) is still unknown: call the same method again.

Source: KafkaProducer.java@3.9 (ProducerFencedException, TransactionAbortableException, documentation of send and
commitTransaction), KIP-691.
"""

from kafka_zk.clients.connection.errors import KafkaError


class TransactionAbortable(KafkaError):
    """This transaction can only be aborted; the producer remains usable."""


class TransactionFatal(KafkaError):
    """This producer is unusable: close it."""


class ProducerFenced(TransactionFatal):
    """Another producer with the same ``transactional.id`` does this work now: close this one and stop."""


class TransactionAborted(KafkaError):
    """The record was not sent, because its transaction was aborted."""


class IllegalTransactionState(KafkaError):
    """Methods of a transactional producer were called in an invalid order.

    The message explains the error; the call had no effect.
    """
