"""What a transactional producer raises; an application needs to tell three cases apart.

- ``TransactionAbortable``: this transaction cannot be committed. Abort it (``with producer.transaction()`` has done so
  already), and go on with the same producer: the work may be done again in a new transaction.
- ``ProducerFenced``: another producer with the same ``transactional.id`` has begun, or the coordinator has given this
  one up (``transaction.timeout.ms``). Close it and do not go on: somebody else does this work now. What was not
  committed is aborted.
- ``TransactionFatal``: this producer can do nothing more; a new one may. ``ProducerFenced`` is one of these, too.

Besides these, ``KafkaTimeoutError`` means that nobody knows yet whether the transaction was committed or aborted: call
the same method again.

Source: KafkaProducer.java@3.9 (ProducerFencedException, TransactionAbortableException and what the documentation of
send and commitTransaction says of the others), KIP-691.
"""

from kafka_zk.clients.connection.errors import KafkaError


class TransactionAbortable(KafkaError):
    """This transaction can only be aborted; the producer is as good as before."""


class TransactionFatal(KafkaError):
    """This producer can do nothing more: close it."""


class ProducerFenced(TransactionFatal):
    """Another producer with the same ``transactional.id`` does this work now: close this one and stop."""


class TransactionAborted(KafkaError):
    """A record that was not sent, because its transaction was aborted."""


class IllegalTransactionState(KafkaError):
    """The program calls the methods of a transactional producer in an order that makes no sense.

    The message says what is wrong; nothing was changed by the call.
    """
