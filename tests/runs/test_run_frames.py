"""``driftsurf.run`` over frames of pandas, polars and pyarrow, and over dictionaries of columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import driftsurf
from driftsurf.data.sources.frame import FrameRows, FrameSource
from driftsurf.errors import NonFiniteError, OptionError, RunStopped, SchemaError, SourceError, StateError
from driftsurf.runs.folder import JOURNAL, TRACE

HOURS = 600


def sales(rows: int = HOURS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    price, demand = rng.normal(size=(2, rows))
    city = pd.Series(rng.choice(["Oslo", "Rome", ""], rows)).replace("", None)
    sold = np.where((price + demand > 0) == (np.arange(rows) < 400), "yes", "no")
    when = pd.date_range("2026-01-01", periods=rows, freq="h")
    return pd.DataFrame({"when": when, "price": price, "demand": demand, "city": city, "new": price > 1, "sold": sold})


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": pa.Table.from_pandas,
    "dictionary": lambda frame: {name: frame[name].to_numpy() for name in frame},
}


def run(source: Any, **options: Any) -> driftsurf.RunResult:
    usual: dict[str, Any] = {"label": "sold", "drop": ["when"], "time": "when", "model": "driftsurf", "batch_size": 50}
    return driftsurf.run(source, progress=False, **(usual | options))


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def of_file(tmp_path_factory: pytest.TempPathFactory) -> driftsurf.RunResult:
    folder = tmp_path_factory.mktemp("file")
    sales().to_parquet(folder / "sales.parquet")
    return run(folder / "sales.parquet", out=folder / "run")


def content(folder: Path) -> list[Any]:
    about = json.loads((folder / "run.json").read_text())
    trace = (folder / TRACE).read_text().partition("\n")[2]  # the first line names the source
    return [trace, (folder / JOURNAL).read_bytes(), about["columns"], about["decided"]]


@pytest.mark.parametrize("form", FORMS)
def test_a_frame_is_learned_like_a_file_of_the_same_rows(
    form: str, of_file: driftsurf.RunResult, tmp_path: Path
) -> None:
    result = run(FORMS[form](sales()), out=tmp_path / "run")
    assert content(result.folder) == content(of_file.folder)
    assert result.trace.stream == "frame"
    page = (result.folder / "report.html").read_text()
    assert "a frame in memory" in page
    assert "driftsurf run" not in page


def test_the_steps_of_a_frame_are_those_of_a_small_file(tmp_path: Path) -> None:
    frame = sales().head(350)
    frame.to_parquet(tmp_path / "sales.parquet")
    results = [run(one, batch_size=None) for one in (frame, tmp_path / "sales.parquet")]
    assert [result.trace.of("driftsurf")["rows"].tolist() for result in results] == [[100, 100, 100, 50]] * 2
    timed = run(frame, batch_size=None, batch_seconds=86_400)
    assert timed.trace.of("driftsurf")["rows"].tolist() == [24] * 14 + [14]


def test_options_of_columns_apply_to_frames() -> None:
    frame = sales().assign(tags=pd.Series([["a"]] * HOURS))
    result = run(frame, drop=["when", "tags"], kinds={"new": "number", "demand": "text"}, rows=200, id="price")
    columns = result.about["columns"]
    assert (columns["numbers"], columns["booleans"], columns["left_out"]) == (["new"], [], ["when", "tags", "price"])
    assert int(result.trace.of("driftsurf")["rows"].sum()) == 200


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"delimiter": ";"}, OptionError, "delimiter"),
        ({"on_bad_row": "skip"}, OptionError, "on_bad_row"),
        ({"follow": True}, OptionError, "follow"),
        ({"key": "city", "sequence": "when"}, OptionError, "Fleet"),
        ({"kinds": {"price": "date"}}, OptionError, "price"),
        ({"label": "slod"}, SchemaError, "sold"),
        ({"drop": ["pirce"]}, SchemaError, "pirce"),
        ({"resume": True}, OptionError, "checkpoint"),
    ],
)
def test_options_that_frames_cannot_have_are_refused(
    options: dict[str, Any], error: type[Exception], named: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=named):
        run(sales(), out=tmp_path / "run", **options)
    assert not list(tmp_path.iterdir())


def test_what_is_no_frame_is_refused_by_type() -> None:
    with pytest.raises(OptionError, match=r"ndarray.*driftsurf\.prequential"):
        driftsurf.run(np.ones((3, 2)), label="sold")  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"lazy frame"):
        run(pl.from_pandas(sales()).lazy())
    with pytest.raises(NonFiniteError, match="price"):
        run(sales().assign(price=np.inf))
    with pytest.raises(SourceError, match="no row"):
        run(sales().head(0))


def test_a_run_over_a_frame_resumes_with_the_same_frame(of_file: driftsurf.RunResult, tmp_path: Path) -> None:
    def stop(step: int, *_: Any) -> None:
        if step == 7:
            raise KeyboardInterrupt

    frame, checkpoints = sales(), tmp_path / "checkpoints"
    with pytest.raises((KeyboardInterrupt, RunStopped)):
        run(frame, checkpoint=checkpoints, every=2, on_step=stop)
    others = frame.assign(price=frame["price"] + (frame.index == 3)), frame.head(100), frame.rename(columns=str.upper)
    for other in others:
        with pytest.raises((SourceError, SchemaError, StateError), match=r"same frame|columns"):
            run(other, checkpoint=checkpoints, every=2, resume=True)
    longer = pd.concat([frame.assign(city=frame["city"].astype("category")), frame.head(0)])
    result = run(longer, checkpoint=checkpoints, every=2, resume=True)
    assert result.first_step > 0
    assert content(result.folder) == content(of_file.folder)


def test_positions_do_not_depend_on_rows_that_follow() -> None:
    short, long = (
        {"city": ["Rome", "Oslo", *more], "price": [1.0, 2.0, *more_prices]}
        for more, more_prices in ((["Rome"], [3.0]), (["Aarhus", "Rome"], [3.0, 4.0]))
    )
    first, other = (next(FrameSource(FrameRows(one), batch_size=2).tables())[1] for one in (short, long))
    assert first == other
    rest = [table["price"].values.tolist() for table, _ in FrameSource(FrameRows(long)).tables(first)]
    assert rest == [[3.0, 4.0]]
    with pytest.raises(StateError):
        list(FrameSource(FrameRows(short)).tables({"file": "a.csv"}))
