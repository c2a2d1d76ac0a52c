"""The stream of ``driftsurf serve --demo``."""

from __future__ import annotations

import threading
from itertools import islice

from served_models import MemoryModel

from driftsurf.service.demo import DEMO_MODEL, LATE, ROWS, Demo, batches


def test_rows_have_the_columns_of_the_model() -> None:
    table, labels = next(islice(batches(), 3, None))
    assert {name: column.kind for name, column in table.columns.items()} == DEMO_MODEL.columns
    assert set(labels) <= set(DEMO_MODEL.classes)
    assert len(labels) == len(table) == ROWS


def test_labels_come_later_than_their_rows() -> None:
    model = MemoryModel("demo", dict(DEMO_MODEL.columns))  # type: ignore[arg-type]
    enough = threading.Event()
    label = model.label

    def noted(labels: object, request: object = None) -> object:
        enough.set()
        return label(labels)  # type: ignore[arg-type]

    model.label = noted  # type: ignore[method-assign, assignment]
    with Demo(model, seconds=0.0):
        assert enough.wait(60)
    assert len(model.waiting) >= len(model.labels_given) + LATE * ROWS
    assert model.labels_given.keys() <= model.waiting.keys()
