"""The table encoder: rows are encoded one by one, in a layout that the first batch fixes and a state restores."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from driftsurf import DriftSurfClassifier
from driftsurf.core.contracts import CSR, EncodedRows
from driftsurf.core.input import Schema, read_rows
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.data.encoding import TableEncoder, hash_slots
from driftsurf.data.frames import read_table
from driftsurf.data.tables import Column, Table
from driftsurf.errors import NonFiniteError, OptionError, SchemaError, ShapeError, StateError
from driftsurf.estimators.tabular import TableTransformer
from driftsurf.learners import LogisticRegression
from driftsurf.native.columns import is_sound_csr
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

DAY = datetime.datetime(2007, 1, 1, 18)
FIRST: dict[str, list[Any]] = {
    "price": [1.0, 3.0, 8.0],
    "size": [1.0, None, 3.0],
    "city": ["Rome", "Oslo", None],
    "sold": [True, False, True],
    "when": [DAY, DAY, DAY],
}
ROW = st.fixed_dictionaries(
    {
        "price": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "size": st.none() | st.integers(-(2**70), 2**70).map(float),
        "city": st.none() | st.sampled_from(["Rome", "Oslo", "Lima", "Bern"]) | st.text(max_size=3),
        "sold": st.none() | st.booleans(),
        "when": st.none() | st.datetimes(),
    }
)

ROWS = st.lists(ROW, min_size=1, max_size=12)


def frame(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in FIRST}


def dense(X: Any) -> Any:
    return X if isinstance(X, np.ndarray) else X.toarray()


def test_each_kind_has_the_slots_that_are_documented() -> None:
    encoder = TableEncoder().fit(FIRST)
    names = encoder.feature_names()
    assert encoder.width == len(names) == len(set(names)) == 1 + 2 + (2 + 8 + 1) + 1 + 11 + 1
    row = dict(zip(names, encoder.transform(FIRST)[0], strict=True))
    assert {name: value for name, value in row.items() if value and not name.startswith("when")} == {
        "price": 1.0,
        "size": 1.0,
        "city=Rome": 1.0,
        "sold": 1.0,
    }
    assert row["when (days since 1970)"] == 13514.75
    assert row["when Monday"] == 1.0
    assert row["when (sine of the hour)"] == pytest.approx(-1.0)
    assert row["when (cosine of the hour)"] == pytest.approx(0.0, abs=1e-9)


def test_missing_values_are_marked_and_filled_with_the_median() -> None:
    encoder = TableEncoder().fit(FIRST)
    gaps = encoder.transform({name: [None] for name in FIRST})[0]
    row = {name: value for name, value in zip(encoder.feature_names(), gaps, strict=True) if value}
    filled = {"price": 3.0, "size": 2.0, "sold": 1.0, "when (days since 1970)": 13514.75}
    assert row == filled | dict.fromkeys(
        ["size is missing", "city is missing", "when is missing", "another cell is missing"], 1.0
    )


def test_words_that_appear_later_are_hashed() -> None:
    encoder = TableEncoder(sparse=False).fit({"city": ["Rome", "Oslo"]})
    later = encoder.transform({"city": ["Lima", "Rome"]})
    assert later[0, 2 + hash_slots(["Lima"], 8)[0]] == 1.0
    assert later.sum(axis=1).tolist() == [1.0, 1.0]
    many = TableEncoder().fit({"id": [f"u{i}" for i in range(1000)]})
    assert many.width == 256 + 1 + 1
    X: Any = many.transform({"id": [f"v{i}" for i in range(5000)] + [None]})
    assert isinstance(X, sparse.csr_array)
    counts = np.bincount(X.indices, minlength=258)
    assert counts[:256].min() > 0
    assert counts[:256].max() < 60
    assert counts[256] == 1


def test_numbers_can_be_treated_as_words() -> None:
    encoder = TableEncoder(categorical=["day"]).fit({"day": [1, 2, 1], "x": [0.5, 0.5, 0.5]})
    assert encoder.feature_names()[:2] == ["day=1", "day=2"]
    assert encoder.transform({"day": [2.0], "x": [1.0]})[0, :2].tolist() == [0.0, 1.0]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(ROW, min_size=1, max_size=12),
    st.lists(ROW, min_size=1, max_size=12),
    st.integers(1, 12),
    st.sampled_from([True, False]),
)
def test_rows_are_encoded_one_by_one_and_are_finite(
    past: list[dict[str, Any]], rows: list[dict[str, Any]], size: int, as_csr: bool
) -> None:
    encoder = TableEncoder(max_categories=2, n_hashes=5, sparse=as_csr).fit(frame(past))
    X = encoder.transform(frame(rows))
    assert isinstance(X, sparse.csr_array) == as_csr
    assert X.shape == (len(rows), encoder.width)
    assert np.isfinite(dense(X)).all()
    if as_csr:
        assert X.has_canonical_format
    parts = [dense(encoder.transform(frame(rows[at : at + size]))) for at in range(0, len(rows), size)]
    assert np.array_equal(np.concatenate(parts), dense(X))
    again = TableEncoder.from_state(from_bytes(to_bytes(encoder.state())))
    assert np.array_equal(dense(again.transform(frame(rows))), dense(X))
    assert again.feature_names() == encoder.feature_names()
    assert again.state() == encoder.state()
    other = TableEncoder(max_categories=2, n_hashes=5, sparse=not as_csr).fit(frame(past))
    assert np.array_equal(dense(other.transform(frame(rows))), dense(X))


def test_the_order_of_columns_and_the_library_do_not_matter() -> None:
    encoder = TableEncoder()
    expected = encoder.fit_transform(FIRST)
    backwards = dict(reversed(FIRST.items()))
    for made in (pd.DataFrame(backwards), pl.DataFrame(backwards), pa.table(backwards), read_table(backwards)):
        assert np.array_equal(encoder.transform(made), expected)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"new": [1, 2, 3]}, "added: 'new'"),
        ({"price": ["a", "b", "c"]}, "retyped: 'price'.*number.*text"),
        ({"city": [1, 2, 3]}, "retyped: 'city'.*text.*number"),
        ({"when": [1, 2, 3]}, "retyped: 'when'.*date.*number"),
    ],
)
def test_changed_columns_are_refused_by_name(change: dict[str, Any], named: str) -> None:
    encoder = TableEncoder().fit(FIRST)
    before = encoder.state()
    for call in (encoder.transform, encoder.partial_fit):
        with pytest.raises(SchemaError, match=named):
            call({**FIRST, **change})
    with pytest.raises(SchemaError, match="removed: 'price'"):
        encoder.transform({name: values for name, values in FIRST.items() if name != "price"})
    assert encoder.state() == before
    assert encoder.partial_fit(FIRST).state() == before


def test_booleans_and_numbers_agree_and_a_column_of_missing_values_fits_every_kind() -> None:
    encoder = TableEncoder().fit(FIRST)
    assert np.array_equal(encoder.transform({**FIRST, "sold": [1, 0, 1]}), encoder.transform(FIRST))
    assert (
        encoder.transform({**FIRST, "when": [None] * 3})[:, encoder.feature_names().index("when is missing")].tolist()
        == [1.0] * 3
    )


def test_sparse_features_are_passed_on() -> None:
    X = sparse.csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]))
    plain = TableEncoder().fit(X)
    assert np.array_equal(dense(plain.transform(X)), X.toarray())
    assert plain.feature_names() == ["feature 0", "feature 1", "feature 2"]
    assert TableEncoder.from_state(plain.state()).width == 3
    features = read_table(X).features
    mixed = type(read_table(X))(read_table({"n": [5.0, None]}).columns, features)
    expected = np.column_stack([[5.0, 5.0], [0.0, 1.0], [0.0, 0.0], X.toarray()])
    for as_csr in (True, False, "auto"):
        encoder = TableEncoder(sparse=as_csr).fit(mixed)
        assert np.array_equal(dense(encoder.transform(mixed)), expected)
        assert np.array_equal(dense(encoder.transform(mixed.rows(1, 2))), expected[1:])
    with pytest.raises(SchemaError, match=r"0.*3"):
        encoder.transform({"n": [1.0]})


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"max_categories": 0}, OptionError, "max_categories.*0"),
        ({"n_hashes": 0}, OptionError, "n_hashes.*0"),
        ({"sparse": "yes"}, OptionError, "sparse.*'yes'"),
        ({"categorical": "city"}, OptionError, r"categorical.*\['city'\]"),
        ({"categorical": ["town"]}, SchemaError, "categorical.*'town'"),
    ],
)
def test_options_are_checked(options: dict[str, Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        TableEncoder(**options).fit(FIRST)


def test_an_encoder_must_be_fitted_first() -> None:
    encoder = TableEncoder()
    assert not encoder.fitted
    with pytest.raises(StateError, match="fit"):
        encoder.transform(FIRST)
    with pytest.raises(ShapeError, match="0 sample"):
        encoder.fit({"a": []})


@pytest.mark.parametrize(
    "change",
    [
        {"params": "{}x"},
        {"params": '{"colour": 1}'},
        {"params": '{"n_hashes": 0}'},
        {"parts": json.dumps([["a", "colour", False, "0x0p+0", [], 0]])},
        {"parts": json.dumps([["a", "number", False, "nan", [], 0]])},
        {"parts": json.dumps([["a", "text", False, "0x0p+0", [5], 8]])},
        {"parts": json.dumps([["a", "text", False, "0x0p+0", ["x"], 0]])},
        {"parts": json.dumps([["a", "number", False, "0x0p+0", [], 0]] * 2)},
        {"parts": "[]"},
        {"sparse": 1},
        {"n_features": -1},
    ],
)
def test_an_invalid_state_is_refused(change: dict[str, Any]) -> None:
    state = TableEncoder().fit(FIRST).state()
    for wrong in ({**state, **change}, {}):
        with pytest.raises(StateError):
            TableEncoder.from_state(wrong)


# ---------------------------------------------------------------------------- the scikit-learn transformer


def test_the_transformer_is_the_encoder() -> None:
    transformer = clone(TableTransformer(max_categories=1, n_hashes=7))
    X = transformer.fit_transform(pd.DataFrame(FIRST))
    encoder = TableEncoder(max_categories=1, n_hashes=7).fit(FIRST)
    assert np.array_equal(X, encoder.transform(FIRST))
    assert transformer.get_feature_names_out().tolist() == encoder.feature_names()
    assert transformer.feature_names_in_.tolist() == list(FIRST)
    assert transformer.n_features_in_ == 5
    assert transformer.__sklearn_tags__().input_tags.allow_nan
    fresh = TableTransformer().partial_fit(FIRST)
    assert fresh.partial_fit(FIRST) is fresh
    assert TableTransformer().fit(sparse.eye_array(3, format="csr")).n_features_in_ == 3


def test_a_mixed_table_is_learned() -> None:
    rng = np.random.default_rng(0)
    city = rng.choice(["Rome", "Oslo", "Lima", "Bern"], 3000)
    price = rng.normal(1e6, 1e5, 3000)
    y = (price > 1e6) ^ (city == "Oslo")
    encoder, model, wrong = TableEncoder(), DriftSurfClassifier(random_state=0), []
    for at in range(0, 3000, 200):
        part = slice(at, at + 200)
        table = {"price": price[part], "flag": city[part] == "Oslo", "city": city[part]}
        wrong.append(np.mean(model.test_then_train(encoder.partial_fit(table).transform(table), y[part]) != y[part]))
    assert np.mean(wrong[5:]) < 0.35


def test_the_median_of_numbers_at_the_edge_of_float64_is_finite() -> None:
    encoder = TableEncoder().fit({"n": [1e308, 1.5e308, None]})
    assert encoder.transform({"n": [None]}).tolist() == [[1.25e308, 1.0, 0.0]]
    assert TableEncoder().fit({"n": [1.0, 4.0, None]}).transform({"n": [None]})[0, 0] == 2.5


@pytest.mark.parametrize("names", ["city", 5, [5], None])
def test_categorical_must_be_names_of_columns(names: Any) -> None:
    with pytest.raises(OptionError):
        TableEncoder(categorical=names).check()


@settings(deadline=None)
@given(ROWS, ROWS)
def test_rows_for_a_session_are_in_canonical_form(first: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    encoder = TableEncoder(sparse=True).fit(frame(first))
    encoded = encoder.rows(frame(rows))
    assert isinstance(encoded, EncodedRows)
    assert encoded.finite
    assert is_sound_csr(*encoded.csr)
    np.testing.assert_array_equal(
        encoded.tocsr().toarray(), TableEncoder(sparse=False).fit(frame(first)).transform(frame(rows))
    )
    schema = Schema(encoder.width, sparse=True)
    assert read_rows(encoded, schema) is encoded.csr
    if np.abs(encoded.data).max(initial=0.0) < 1e38:
        narrow = read_rows(encoded, schema, np.float32)
        assert isinstance(narrow, CSR)
        assert narrow.data.dtype == np.float32


def test_encoded_rows_are_refused_as_others_are() -> None:
    encoder = TableEncoder(sparse=True).fit({"price": [1.0, 2.0], "city": ["Rome", "Oslo"]})
    city = Column("text", np.array([0, 1, -1], np.int32), ("Rome", "Oslo"))
    rows = encoder.rows(Table({"price": Column("number", np.array([1.0, np.inf, 0.0])), "city": city}))
    schema = Schema(encoder.width, sparse=True)
    with pytest.raises(NonFiniteError, match="row 1, column 0"):
        read_rows(rows, schema)
    with pytest.raises(ShapeError, match="expecting 99 features"):
        read_rows(rows, Schema(99, sparse=True))
    kept = rows[np.array([True, False, True])]
    assert kept.shape == (2, encoder.width)
    np.testing.assert_array_equal(kept.tocsr().toarray(), rows.tocsr().toarray()[[0, 2]])
    with pytest.raises(ShapeError, match="0 sample"):
        read_rows(rows[np.zeros(3, bool)], schema)


def test_a_session_learns_encoded_rows_as_it_learns_a_sparse_matrix() -> None:
    draw = np.random.default_rng(0)
    sessions = [Session(DriftSurf(LogisticRegression())) for _ in range(2)]
    encoder = TableEncoder(sparse=True)
    for _ in range(4):
        table = {"size": draw.normal(size=60), "city": draw.choice(["Rome", "Oslo", "Lima"], 60)}
        y = (table["size"] > 0).astype(int)
        rows = encoder.partial_fit(table).rows(table)
        scores = [session.observe(X, y).scores for session, X in zip(sessions, (rows, rows.tocsr()), strict=True)]
        assert scores[0].tobytes() == scores[1].tobytes()


CELLS = st.floats(allow_infinity=False, allow_nan=False, width=64)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=5), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_numbers_without_a_table_are_encoded_to_the_same_bits(rows: list[list[float]], plain: bool, gaps: bool) -> None:
    first = {"a": [1.0, 2.0], "b": [0.0, 1.0], "c": [5.0, np.nan if gaps else 6.0]}
    encoder = TableEncoder(plain=plain).fit(first)
    numbers = np.array(rows)
    found = encoder.number_rows(numbers)
    if gaps:
        assert found is None
    else:
        table = Table({name: Column("number", own) for name, own in zip("abc", numbers.T, strict=True)})
        assert found is not None
        assert found.tobytes() == encoder.transform(table).tobytes()


def test_numbers_of_other_columns_need_a_table() -> None:
    assert TableEncoder().fit({"a": [1.0], "b": ["x"]}).number_rows(np.ones((1, 2))) is None
    assert TableEncoder().fit({"a": [1.0], "b": [2.0]}).number_rows(np.ones((1, 3))) is None
