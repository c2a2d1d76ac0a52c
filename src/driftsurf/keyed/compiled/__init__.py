"""The compiled backend of :class:`~driftsurf.keyed.Fleet`: one block of memory per key, one loop over all keys.

It serves DriftSurf around logistic regression alone. A block is the memory of a cell of
:mod:`driftsurf.strategies.compiled`, and the loop calls the compiled step of a single model on it.
"""
