"""Labels by id: ``{"labels": {"o-17": "yes"}}``."""

from __future__ import annotations

from typing import Any

import msgspec

from driftsurf.core.json_text import repeated_keys
from driftsurf.data.tables import Table
from driftsurf.errors import BadRowError, InputError
from driftsurf.service.wire.format import MOST_FAULTS, Fault, OnBadRow, RowsRead, id_fault, label_fault, refuse_first
from driftsurf.service.wire.tables import check_count

__all__ = ["read_labels"]


class _Labels(msgspec.Struct, forbid_unknown_fields=True):
    labels: dict[str, Any]


_DECODER = msgspec.json.Decoder(_Labels)


def read_labels(body: bytes, on_bad_row: OnBadRow = "fail", most: int = 100_000) -> RowsRead:
    """Return the ids and labels of a body; the row of a fault is the place of its id.

    >>> read_labels(b'{"labels": {"o-17": "yes", "o-18": "no"}}').labels
    ['yes', 'no']
    """
    check_count(body.count(b":") // 2, most * 4)  # before memory is taken for them; ids may have colons
    try:
        given = _DECODER.decode(body).labels
    except RecursionError:
        raise InputError("the body is nested too deeply; pass labels by id") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f'the body is not as expected: {error}; pass {{"labels": {{"id": label}}}}') from None
    check_count(len(given), most)
    if body.count(b":") != 1 + len(given) and (twice := repeated_keys(body).anywhere) is not None:
        raise BadRowError(f"the id {twice!r} has two labels; send each id once", value=twice)
    ids, labels, faults = list[str](), list[Any](), list[Fault]()
    for row, (id, label) in enumerate(given.items()):
        fault = id_fault(row, "id", id) or label_fault(row, id, label)
        if fault is None:
            ids.append(id)
            labels.append(label)
        else:
            refuse_first([fault], on_bad_row)
            faults.append(fault)
    if not given:
        raise InputError("the body has no labels; pass at least one")
    return RowsRead(Table({}), ids, labels, tuple(faults[:MOST_FAULTS]), len(faults))
