"""What the group coordinator and the transaction coordinator have in common: an internal topic whose partitions hold
the coordinator's state, loaded by the brokers that lead them.
"""
