"""The model of a run as an estimator that takes raw frames."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import invoke
from table_files import csv_text, write_csv
from table_runs import ROWS, split

import driftsurf
from driftsurf.errors import OptionError, SchemaError, StateError, ValueTypeError
from driftsurf.saving import dumps, loads

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.ColumnWarning")  # columns tell the label
LABEL: dict[str, Any] = {"label": "sold", "drop": ["id"], "batch_size": 100, "model": "driftsurf"}
MODELS = [
    "driftsurf",
    "ddm:svm",
    "aue(experts=3):softmax",
    "recommended",
    pytest.param("recommended-trees", marks=pytest.mark.skipif(not find_spec("lightgbm"), reason="needs lightgbm")),
]


def run(folder: Path, **options: Any) -> driftsurf.RunResult:
    """Run over the table of mixed columns."""
    return driftsurf.run(write_csv(folder, ROWS), **{**LABEL, "out": folder / "run", **options})


@pytest.mark.parametrize("model", MODELS)
def test_a_run_leaves_a_model_that_takes_raw_frames(model: str, tmp_path: Path) -> None:
    result = run(tmp_path, model=model)
    frame = pd.read_csv(tmp_path / "sales.csv")  # dates are text there, and the label and the ids are columns
    loaded = driftsurf.load(result.folder)
    assert loaded.classes_.tolist() == ["no", "yes"]
    assert loaded.feature_names_in_.tolist() == ["when", "price", "share", "city", "member"]
    assert loaded.score(frame[1400:], frame["sold"][1400:]) > 0.8
    bare = frame.drop(columns=["sold", "id"])[::-1].assign(when=pd.to_datetime(frame["when"]))
    assert np.array_equal(loaded.predict(bare), loaded.predict(frame)[::-1])
    session = result.models[result.model]
    copy = loads(dumps(loaded))
    for rows in (loaded, copy):
        rows.partial_fit(frame[:100], frame["sold"][:100])
    assert copy.to_bytes() == loaded.to_bytes()
    assert loaded.journal_[-1].step == session.steps
    loaded.fit(frame[:300], frame["sold"][:300])  # learns neither the label nor what the run left out
    assert loaded.feature_names_in_.tolist() == ["when", "price", "share", "city", "member"]


def test_the_file_the_folder_and_the_checkpoints_hold_the_same_model(tmp_path: Path) -> None:
    result = run(tmp_path, checkpoint=tmp_path / "live", out=None)
    places = [tmp_path / "live", result.folder, result.folder / "model.state"]
    first, *others = [driftsurf.load(place).to_bytes() for place in places]
    assert others == [first, first]
    plain = run(tmp_path)
    assert (plain.folder / "model.state").read_bytes() == (result.folder / "model.state").read_bytes()


def test_kinds_and_categories_of_the_run_are_honoured(tmp_path: Path) -> None:
    rows = [{**row, "zip": f"0{12 + k % 3}", "floor": k % 4} for k, row in enumerate(ROWS[:600])]
    source = tmp_path / "sales.csv"
    source.write_text(csv_text(rows, list(rows[0])))
    result = driftsurf.run(source, **LABEL, kinds={"zip": "text"}, categorical=["floor"], l2=1e-3, out=tmp_path / "run")
    loaded = driftsurf.load(result.folder)
    names = loaded.export().columns
    assert {"zip=012", "zip=013", "floor=3"} <= set(names)
    frame = pd.read_csv(source, dtype={"zip": str})
    assert len(loaded.predict(frame)) == len(frame)
    assert len(loaded.predict(frame.assign(price=frame["price"].astype(str).replace("nan", "NA")))) == len(frame)
    with pytest.raises(ValueTypeError, match=r"'price'.*'dear'"):
        loaded.predict(frame.assign(price="dear"))
    with pytest.raises(SchemaError, match="'city'"):
        loaded.predict(frame.drop(columns="city"))


def test_a_question_and_a_number_can_be_predicted(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS)
    asked = driftsurf.load(run(tmp_path, label="price > 1000000", on_bad_row="skip", out=tmp_path / "asked").folder)
    assert asked.classes_.tolist() == [False, True]
    number = driftsurf.load(run(tmp_path, label="price", on_bad_row="skip", out=tmp_path / "number").folder)
    for model in (asked, number):
        assert len(model.predict(frame)) == len(model.predict(frame.drop(columns="price"))) == len(frame)


def test_late_labels_and_built_in_streams_leave_a_model_too(tmp_path: Path) -> None:
    rows, labels = split(tmp_path, ROWS)
    late = driftsurf.run(rows, label="sold", labels=str(labels), key="id", batch_size=100, out=tmp_path / "late")
    loaded = driftsurf.load(late.folder)
    assert loaded.batch_size == 100
    assert loaded.score(pd.DataFrame(ROWS)[1400:], [row["sold"] for row in ROWS[1400:]]) > 0.8
    stream = driftsurf.load(driftsurf.run("sea10", rows=2_000, out=tmp_path / "sea").folder)
    assert set(stream.predict(np.zeros((3, 3)))) <= {-1, 1}


def test_a_learner_that_only_pickle_can_save_leaves_a_model_that_has_to_be_trusted(tmp_path: Path) -> None:
    model = "oblivious:sklearn.linear_model:SGDClassifier(mode='partial_fit', loss='log_loss')"
    result = run(tmp_path, model=model)
    assert result.no_model == ""
    with pytest.raises(StateError, match="trust_pickle"):
        driftsurf.load(result.folder)
    refused = invoke("predict", result.folder, tmp_path / "sales.csv")
    assert refused.exit_code != 0
    assert "--trust-config" in refused.output
    found = invoke("predict", result.folder, tmp_path / "sales.csv", "--trust-config")
    assert (found.exit_code, len(found.stdout.splitlines())) == (0, len(ROWS) + 1)
    with pytest.raises(OptionError, match="name it yourself"):
        run(tmp_path, model=None, start_from=result.folder, out=tmp_path / "next")
    following = run(tmp_path, model=model, start_from=result.folder, out=tmp_path / "next")
    means = [one.trace.of(model)["error"].mean() for one in (result, following)]
    assert means[1] < means[0]
