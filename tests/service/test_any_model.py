"""Served models of every kind: the portfolio, LightGBM and scikit-learn, with late labels and exact recovery."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from driftsurf import load
from driftsurf.data.frames import read_table
from driftsurf.data.tables import Table
from driftsurf.errors import CapabilityError
from driftsurf.service.contract import Order
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.settings import AskedTask, Keeping, ModelSettings

KEEPING = Keeping(least_free_bytes=0, checkpoint_seconds=1000.0)
TREE = "sklearn.tree:DecisionTreeClassifier"


def rows(count: int, seed: int, task: AskedTask) -> tuple[Table, npt.NDArray[Any]]:
    chance = np.random.default_rng(seed)
    price = chance.normal(size=count)
    city = np.where(chance.random(count) < 0.5, "Rome", "Oslo")
    y = 3.0 * price if task == "regression" else np.where(price > 0, "yes", "no")
    return read_table({"price": price, "city": city}), y


def live(model: ServedModel, task: AskedTask, rounds: range) -> bytes:
    """Let a model learn rows with labels at once and late; return its bytes."""
    for number in rounds:
        table, y = rows(40, number, task)
        model.learn(table, y).result(60)
        ids = [f"{number}-{place}" for place in range(40)]
        model.predict(table, ids)
        model.label(dict(zip(ids, y.tolist(), strict=True))).result(60)
        model.order(Order("unpin")).result(120)  # everything before it has been applied
    return model.state()


@pytest.mark.parametrize(
    ("model", "learner", "task"),
    [
        ("recommended", None, "binary"),
        ("recommended", None, "regression"),
        ("driftsurf", "lightgbm", "binary"),
        ("driftsurf", TREE, "binary"),
    ],
)
def test_model_is_the_same_after_any_end(tmp_path: Path, model: str, learner: str | None, task: AskedTask) -> None:
    if model == "recommended" or learner == "lightgbm":
        pytest.importorskip("lightgbm")  # without it, the portfolio has no trees
    asked = ModelSettings(label="sold", task=task, model=model, learner=learner, batch_size=30)
    table, y = rows(60, 99, task)
    killed = tmp_path / "killed" / "m"
    with closing(open_model(tmp_path / "m", asked, KEEPING)) as served:
        assert served.wait_ready(60)
        live(served, task, range(2))
    with closing(open_model(tmp_path / "m", keeping=KEEPING)) as served:
        assert served.wait_ready(60)
        before = live(served, task, range(2, 4))
        answer = served.predict(table)
        assert answer.labels is not None
        assert (np.square(answer.labels - y) < 0.5).mean() > 0.9 if task == "regression" else (answer.labels == y).all()
        shutil.copytree(tmp_path / "m", killed)  # what a kill leaves: an old checkpoint, and a log that is longer
        assert served.parts() is not None
        assert "<html" in served.report()
        assert "step" in served.explain()
        path = tmp_path / "model.state"
        path.write_bytes(before)
        after = live(served, task, range(4, 6))
    with closing(open_model(killed, keeping=KEEPING)) as served:
        assert served.wait_ready(60)
        assert served.state() == before
        again = served.predict(table)
        np.testing.assert_array_equal(again.labels, answer.labels)
        assert live(served, task, range(4, 6)) == after
    if learner != TREE:  # whose class is not loaded from bytes alone
        found = load(path).predict({"price": table["price"].values, "city": table.labels("city")})
        np.testing.assert_array_equal(found, answer.labels)


@pytest.mark.parametrize("task", ["auto", "binary"])
def test_learner_that_only_pickle_saves_is_refused_before_anything_is_made(tmp_path: Path, task: AskedTask) -> None:
    asked = ModelSettings(task=task, model="driftsurf", learner="sklearn.linear_model:SGDClassifier")
    with pytest.raises(CapabilityError, match=r"SGDClassifier cannot be saved exactly.*mode='refit'"):
        open_model(tmp_path / "m", asked, KEEPING)
    assert not (tmp_path / "m").exists()
    refitted = ModelSettings(task=task, model="driftsurf", learner=asked.learner, parameters={"mode": "refit"})
    open_model(tmp_path / "m", refitted, KEEPING).close()


def test_challenger_that_only_pickle_saves_is_refused_before_it_is_logged(tmp_path: Path) -> None:
    asked = ModelSettings(task="binary", model="driftsurf")
    with closing(open_model(tmp_path / "m", asked, KEEPING)) as model:
        assert model.wait_ready(60)
        options = {"model": "driftsurf", "learner": "sklearn.linear_model:SGDClassifier"}
        with pytest.raises(CapabilityError, match="mode='refit'"):
            model.order(Order("challenge", "a", options=options))
        assert model.status().logged == 0
