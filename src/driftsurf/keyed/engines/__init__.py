"""Engines for keyed runs: each module registers one, by name.

An engine implements :class:`~driftsurf.keyed.job.Engine`. Every module here can be imported without optional packages;
code that needs one at import lives in a package of its own, such as ``driftsurf.keyed.spark``.
"""
