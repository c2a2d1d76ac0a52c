"""Data as tables: sources, file formats, encoding of tables as rows, targets, data sets and the catalogue.

Files, folders, growing files and standard input are read in bounded memory and can be resumed at any position.

==============================================  ===================================================================
``source``, ``sources/``                        the protocol of a source and ``open_source``; one source per module
``formats/``                                    readers of one file, one format per module
``reading_options``                             every option that says how files are read
``tables``                                      columns by name, of four kinds, also from pyarrow
``frames``, ``arrow``                           tables of pandas and polars as tables; messages of Arrow streams
``encoding``, ``vocabulary``                    rows of numbers from tables, and from rows of named values
``row_encoder``                                 the column to predict, the times and the encoder, saved together
``advice``, ``inferred_options``                how columns were read, advice where that looks wrong, and remedies
``datasets/``, ``catalogue``, ``download``      real data sets; streams by name; downloads
==============================================  ===================================================================

Nothing here learns; generators of synthetic streams are in :mod:`driftsurf.streams`.
"""

from __future__ import annotations

from driftsurf.core.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
