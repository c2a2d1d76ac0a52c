"""Messages of brokers and rows of databases as tables: contracts, sources, decoding and what clients share.

A connector moves messages, and knows nothing of tables or models; those of this package are in
:mod:`driftsurf.connectors`. A system that keeps its messages is read by a
:class:`~driftsurf.data.messages.contract.Seekable`; one that hands each message out once, by an
:class:`~driftsurf.data.messages.contract.Inbox`. :class:`~driftsurf.data.messages.source.MessageSource` makes tables
of the messages, and logs which of them belong to a batch before it reads them, so that a run that was killed learns
the same batches again. A :class:`~driftsurf.data.messages.contract.Writer` takes predictions, and is asked after a
crash how many rows it holds.
"""
