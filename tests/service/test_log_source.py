"""The log of a served model as a source: a backtest sees the rows and labels that the service joined."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from driftsurf.data import ReadingOptions, open_source
from driftsurf.data.frames import read_table
from driftsurf.data.tables import Table
from driftsurf.errors import LogError, OptionError, SchemaError, SourceError, StateError
from driftsurf.runs.api import run
from driftsurf.service.contract import Order
from driftsurf.service.log_source import LogSource
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.settings import Keeping, ModelSettings

SETTINGS = ModelSettings(
    label="sold", task="binary", model="driftsurf", batch_size=20, columns={"price": "number", "city": "text"}
)
KEEPING = Keeping(least_free_bytes=0, checkpoint_seconds=1000.0, segment_bytes=3000)


def rows(count: int, seed: int, *, turned: bool = False) -> tuple[Table, npt.NDArray[Any]]:
    chance = np.random.default_rng(seed)
    price = chance.normal(size=count)
    city = np.where(np.arange(count) % 2 == 0, "Rome", "Oslo")
    return read_table({"price": price, "city": city}), np.where((price > 0) != turned, "yes", "no")


def settled(model: ServedModel) -> ServedModel:
    model.order(Order("unpin")).result(60)
    return model


def lived(folder: Path, rounds: int = 40, **settings: Any) -> list[tuple[float, str]]:
    """Let a model live: labels at once, late, early, in another order, and never; return what became labelled."""
    asked = {name: getattr(SETTINGS, name) for name in SETTINGS.__dataclass_fields__} | settings
    labelled: list[tuple[float, str]] = []
    with closing(open_model(folder, ModelSettings(**asked), KEEPING)) as model:
        assert model.wait_ready(60)
        for number in range(rounds):
            table, y = rows(24, number, turned=number > rounds // 2)
            truth = list(zip(table["price"].values.tolist(), y.tolist(), strict=True))
            if number % 3 == 0:
                model.learn(table.rows(0, 20), y[:20]).result(60)
                labelled += truth[:20]
            else:
                ids = [f"{number}-{place}" for place in range(24)]  # the last four never get a label
                model.label({ids[3]: y[3]}).result(60)
                model.predict(table, ids)
                order = [3, *range(19, 3, -1), 0, 1, 2]
                model.label({ids[place]: y[place] for place in order[1:]}).result(60)
                labelled += [truth[place] for place in order]
            settled(model)
        (folder / "trace.csv").write_text(model.trace())
    return labelled


def errors_of(trace: str) -> list[tuple[str, str]]:
    lines = csv.DictReader(io.StringIO("\n".join(line for line in trace.splitlines() if not line.startswith("#"))))
    return [(line["step"], line["error"]) for line in lines]


def values(tables: Any) -> list[tuple[float, str]]:
    return [
        pair
        for table, _ in tables
        for pair in zip(table["price"].values.tolist(), table.labels("sold").tolist(), strict=True)
    ]


def test_backtest_of_the_served_model_has_the_errors_of_the_service(tmp_path: Path) -> None:
    lived(tmp_path / "sales")
    run(tmp_path / "sales" / "log", label="sold", model="driftsurf", batch_size=20, out=tmp_path / "backtest")
    served = errors_of((tmp_path / "sales" / "trace.csv").read_text())
    assert len(served) > 35
    assert len({error for _, error in served}) > 3
    assert errors_of((tmp_path / "backtest" / "trace.csv").read_text()) == served


def test_rows_come_in_the_order_in_which_they_became_labelled(tmp_path: Path) -> None:
    labelled = lived(tmp_path / "sales", 10)
    source = open_source(tmp_path / "sales" / "log", batch_size=7)
    assert isinstance(source, LogSource)
    tables = list(source.tables())
    assert [len(table) for table, _ in tables] == [7] * 28 + [4]
    assert values(tables) == labelled
    assert list(tables[0][0].columns) == ["price", "city", "sold"]
    assert set(tables[0][0].labels("city")) == {"Rome", "Oslo"}


def test_every_position_can_be_resumed(tmp_path: Path) -> None:
    labelled = lived(tmp_path / "sales", 6)
    source = open_source(tmp_path / "sales" / "log", batch_size=9)
    for number, (_, position) in enumerate(source.tables(), 1):
        again = source.tables(json.loads(json.dumps(position)))
        assert values(again) == labelled[9 * number :]


def test_rows_and_columns_can_be_left_out(tmp_path: Path) -> None:
    labelled = lived(tmp_path / "sales", 6)
    source = LogSource(tmp_path / "sales" / "log", ReadingOptions(rows=50, drop=("city",)), batch_size=20)
    tables = list(source.tables())
    assert values(tables) == labelled[:50]
    assert list(tables[0][0].columns) == ["price", "sold"]
    assert values(source.tables(tables[1][1])) == labelled[40:50]
    assert not list(source.tables(tables[2][1]))
    with pytest.raises(SchemaError, match="'town'"):
        next(LogSource(tmp_path / "sales" / "log", ReadingOptions(drop=("town",))).tables())


def test_dropped_records_end_a_resumed_run_and_not_a_new_one(tmp_path: Path) -> None:
    labelled = lived(tmp_path / "sales", 12, columns={})  # the first record, which told the columns, is dropped
    source = open_source(tmp_path / "sales" / "log", batch_size=20)
    _, position = next(source.tables())
    keeping = Keeping(least_free_bytes=0, checkpoint_seconds=0.001, segment_bytes=3000, retain_bytes=3000)
    with closing(open_model(tmp_path / "sales", keeping=keeping)) as model:
        assert model.wait_ready(60)
        for _ in range(5):  # restore points hold records, too
            table, y = rows(20, 99)
            model.learn(table, y).result(60)
            settled(model)
    with pytest.raises(SourceError, match="has dropped it; start a new run"):
        source.tables(position)
    left = values(source.tables())
    assert 100 < len(left) < len(labelled) + 100
    assert left[-100:-80] == left[-20:]


def test_torn_end_is_left_out_and_damage_elsewhere_is_an_error(tmp_path: Path) -> None:
    labelled = lived(tmp_path / "sales", 8)
    *_, before, last = sorted((tmp_path / "sales" / "log").glob("*.log"))
    source = LogSource(tmp_path / "sales" / "log", batch_size=20)
    last.write_bytes(last.read_bytes()[:-3])
    assert values(source.tables()) == labelled  # the last record is an order
    before.write_bytes(before.read_bytes()[:-3])
    with pytest.raises(LogError, match="should be at byte"):
        list(source.tables())


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"batch_seconds": 60.0, "time": "when"}, "batch_seconds"),
        ({"follow": lambda: True}, "follow"),
        ({"reading": ReadingOptions(kinds={"price": "text"})}, "kinds"),
        ({"batch_size": None}, "batch_size"),
    ],
)
def test_options_that_a_log_does_not_have_are_refused(tmp_path: Path, options: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        LogSource(tmp_path, **options).tables()


def test_bad_positions_and_empty_logs_are_refused(tmp_path: Path) -> None:
    open_model(tmp_path / "sales", SETTINGS, KEEPING).close()
    source = LogSource(tmp_path / "sales" / "log")
    with pytest.raises(SourceError, match="no records yet"):
        source.tables()
    with pytest.raises(StateError, match="not a position"):
        source.tables({"file": "a", "rows": -1})


def test_log_of_a_regression(tmp_path: Path) -> None:
    asked = ModelSettings(task="regression", model="driftsurf", batch_size=20)
    table, _ = rows(45, 0)
    amounts = 3.0 * table["price"].values
    with closing(open_model(tmp_path / "m", asked, KEEPING)) as model:
        assert model.wait_ready(60)
        model.learn(table, amounts).result(60)
    ((found, _),) = open_source(tmp_path / "m" / "log").tables()
    np.testing.assert_array_equal(found["label"].values, amounts)
    assert found["label"].kind == "number"
