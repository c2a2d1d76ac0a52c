"""Streams that drift: the paper's generators, arrays as streams, and functions that inject drift.

Streams are registered beside their classes with :func:`~driftsurf.streams.base.register_stream`. Real data sets are in
:mod:`driftsurf.data.datasets`.
"""

from __future__ import annotations

from driftsurf.core.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
