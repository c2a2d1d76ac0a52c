"""Answers as Arrow: the labels that were predicted, whatever and however many the classes are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("msgspec")

from driftsurf.service.contract import Answer  # noqa: E402
from driftsurf.service.wire.formats import encode_answer  # noqa: E402
from driftsurf.service.wire.rows import NumberRows, RowsRead  # noqa: E402


@pytest.mark.parametrize(
    "classes",
    [("no", "yes"), ("b", "a", "ü"), tuple(f"c{place}" for place in range(20)), (3, 7), (False, True), ("only",), ()],
)
def test_labels_and_probabilities_of_arrow_are_those_of_the_answer(classes: tuple[Any, ...]) -> None:
    chance = np.random.default_rng(3)
    known = np.array(classes if classes else ("x", "y"))
    labels = known[chance.integers(len(known), size=50)]
    shares = chance.random((50, len(known))) if classes else None
    rows = RowsRead(NumberRows((), np.zeros((50, 0))))
    data = encode_answer("m", Answer(4, labels, classes, shares), rows, "arrow", all_classes=False)
    with pa.ipc.open_stream(data) as stream:
        table = stream.read_all()
    assert table.column("prediction").to_pylist() == labels.tolist()
    assert table.column("version").to_pylist() == [4] * 50
    assert table.column_names == ["prediction", *(["probability"] if classes else []), "version"]
    if shares is not None:
        assert table.column("probability").to_pylist() == shares.max(axis=1).tolist()


def test_an_answer_without_labels_has_none_of_them() -> None:
    rows = RowsRead(NumberRows((), np.zeros((2, 0))))
    with pa.ipc.open_stream(encode_answer("m", Answer(0, None), rows, "arrow", all_classes=False)) as stream:
        assert stream.read_all().column("prediction").to_pylist() == [None, None]
