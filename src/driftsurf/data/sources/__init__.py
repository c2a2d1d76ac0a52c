"""Sources of tables, one module for each, registered with the schemes that it opens.

The protocol that they follow, and :func:`~driftsurf.data.source.open_source`, are in :mod:`driftsurf.data.source`. How
the bytes of one file become rows is decided in :mod:`driftsurf.data.formats`.
"""
