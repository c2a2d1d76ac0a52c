"""Connectors: brokers and databases as sources of rows and as destinations of predictions. One system, one file.

A connector moves messages, and knows nothing of tables or models. A system that keeps its messages is read by a
:class:`~driftsurf.data.connectors.contract.Seekable`; one that hands each message out once, by an
:class:`~driftsurf.data.connectors.contract.Inbox`. :class:`~driftsurf.data.connectors.source.MessageSource` makes
tables of the messages, and logs which of them belong to a batch before it reads them, so that a run that was killed
learns the same batches again. A :class:`~driftsurf.data.connectors.contract.Writer` takes predictions, and is asked
after a crash how many rows it holds.
"""
