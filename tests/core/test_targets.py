"""Targets in every form in which they are given: the usual ones are read at once, all others are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.errors import InputError, LabelError, NonFiniteError

COLUMNS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "objects": lambda y: np.array(y, object),
    "strided": lambda y: np.repeat(np.array(y), 2)[::2],
    "column": lambda y: np.array(y)[:, None],
    "pandas": pd.Series,
    "pandas categories": lambda y: pd.Series(y).astype("category"),
    "polars": pl.Series,
    "arrow": pa.array,
    "arrow chunks": lambda y: pa.chunked_array([y]),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("labels", [("b", "a", "c"), (1, 0, 2), (10**9, -(10**9), 5), (True, False)])
def test_labels_have_the_same_codes_in_every_form(labels: tuple[Any, ...], kind: str) -> None:
    y = [labels[place % len(labels)] for place in (0, 1, 1, 2, 0)]
    given = COLUMNS[kind](y)
    targets, codes = ClassTargets().read(given, 5)
    assert targets.labels == labels
    assert codes.tolist() == [float(labels.index(label)) for label in y]
    again, more = targets.read(given, 5)
    assert again is targets
    assert more.tolist() == codes.tolist()
    with pytest.raises(InputError):
        targets.read(given, 4)


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_new_label_grows_an_open_set_and_is_refused_by_a_closed_one(kind: str) -> None:
    given = COLUMNS[kind](["b", "d", "a"])
    targets, codes = ClassTargets(("a", "b")).read(given, 3)
    assert targets.labels == ("a", "b", "d")
    assert codes.tolist() == [1.0, 2.0, 0.0]
    with pytest.raises(LabelError, match="'d'"):
        ClassTargets(("a", "b"), closed=True).read(given, 3)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("y", [[1.5, 2.0, -3.0], [1, 2, 3], [True, False, True]])
def test_numbers_are_the_same_in_every_form(y: list[float], kind: str) -> None:
    given = COLUMNS[kind](y)
    for _ in range(2):
        targets, numbers = RegressionTargets().read(given, 3)
        assert numbers.dtype == np.float64
        assert numbers.tolist() == y
        assert targets == RegressionTargets()
    with pytest.raises(InputError):
        targets.read(given, 2)


@pytest.mark.parametrize("kind", ["list", "tuple", "array", "pandas", "polars"])
def test_a_number_that_is_not_finite_is_refused(kind: str) -> None:
    with pytest.raises(NonFiniteError):
        RegressionTargets().read(COLUMNS[kind]([1.0, np.nan]), 2)
    with pytest.raises(LabelError, match="overflows"):
        RegressionTargets().read(COLUMNS[kind]([1.0, 1e160]), 2)


def test_targets_are_copied() -> None:
    y = np.array([1.0, 2.0])
    _, numbers = RegressionTargets().read(y, 2)
    y[:] = 0.0
    assert numbers.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("targets", [ClassTargets(("b", "a"), closed=True), ClassTargets(("b", "a"))])
def test_classes_may_be_repeated_in_any_form_and_order(targets: ClassTargets) -> None:
    for classes in (["a", "b"], ("b", "a"), np.array(["b", "a"]), np.array(["a", "b"], object), {"a", "b"}, iter("ab")):
        assert targets.with_classes(classes, begun=True) is targets
    for other in (["a"], ["a", "b", "c"], [0, 1], "ac", [["a"], ["c"]], [], ["a", None], 3):
        with pytest.raises(InputError):
            targets.with_classes(other, begun=True)  # type: ignore[arg-type]


def test_classes_of_a_model_that_has_not_begun_are_declared() -> None:
    targets = ClassTargets(("b", "a")).with_classes(["a", "b"], begun=False)
    assert targets == ClassTargets(("a", "b"), closed=True)
