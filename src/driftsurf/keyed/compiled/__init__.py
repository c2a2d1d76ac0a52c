"""The compiled backend of :class:`~driftsurf.keyed.Fleet`: one block of memory per key, one loop over all keys.

It serves DriftSurf around logistic regression alone. The rule and the steps of training are not written again here: the
loops call the functions of ``strategies/driftsurf.py`` and of :mod:`driftsurf.kernels`.
"""
