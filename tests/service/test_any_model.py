"""Served models of every kind: the portfolio, LightGBM and scikit-learn, with late labels and exact recovery."""

from __future__ import annotations

import asyncio
import shutil
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from driftsurf import load
from driftsurf.data.frames import read_table
from driftsurf.data.tables import Table
from driftsurf.errors import CapabilityError, OptionError
from driftsurf.learners import LogisticRegression
from driftsurf.service.contract import Answer, Order
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.settings import AskedTask, Keeping, ModelSettings
from driftsurf.service.versions import Version
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

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


@pytest.mark.parametrize(
    ("model", "learner", "slow"),
    [
        ("portfolio", None, True),
        ("driftsurf", "lightgbm", True),
        ("driftsurf", TREE, True),
        ("driftsurf", None, False),
        ("aue", "naive-bayes", False),
    ],
)
def test_slow_models_predict_beside_the_event_loop(
    tmp_path: Path, model: str, learner: str | None, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("lightgbm")
    from driftsurf.service.http.app import App
    from driftsurf.service.wire.formats import ModelFormats

    asked = ModelSettings(label="sold", task="binary", model=model, learner=learner, batch_size=40)
    paths, threads = ("/v1/models/m/predict", "/v2/models/m/infer"), list[str]()
    bodies = (
        {"rows": [{"price": 1.0, "city": "Rome"}]},
        {"inputs": [
            {"name": "price", "shape": [1], "datatype": "FP64", "data": [1.0]},
            {"name": "city", "shape": [1], "datatype": "BYTES", "data": ["Rome"]},
        ]},
    )  # fmt: skip
    began, end, answer = threading.Event(), threading.Event(), Version.answer

    def held(version: Version, table: Table) -> Answer:
        threads.append(threading.current_thread().name)
        began.set()
        assert not slow or end.wait(60)
        return answer(version, table)

    async def ask(app: App, path: str, body: Any) -> tuple[int, int]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            predicting = asyncio.create_task(client.post(path, json=body))
            await asyncio.to_thread(began.wait, 60)
            health = await client.get("/healthz")
            assert predicting.done() is not slow
            end.set()
            return health.status_code, (await predicting).status_code

    with closing(open_model(tmp_path / "m", asked, KEEPING)) as served:
        assert served.wait_ready(60)
        served.learn(*rows(40, 0, "binary")).result(60)
        served.order(Order("unpin")).result(120)
        assert served.snapshot.slow is slow
        app = App([(served, ModelFormats(label="sold"))])
        monkeypatch.setattr(Version, "answer", held)
        for path, body in zip(paths, bodies, strict=True):
            began.clear()
            end.clear()
            assert asyncio.run(ask(app, path, body)) == (200, 200)
        app.readers.shutdown()
    assert [name.startswith("reader") for name in threads] == [slow, slow]


class OwnRegression(LogisticRegression):
    """A learner of another package, which may do anything in its scores."""


def test_a_learner_of_another_package_may_be_slow() -> None:
    own, known = (Session(DriftSurf(learner)) for learner in (OwnRegression(), LogisticRegression()))
    now = known.now._replace(scorer=known.strategy.scores)
    assert Version(session=own, now=now).slow
    assert not Version(session=known, now=now).slow


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
        with pytest.raises(OptionError, match="mode='refit'"):
            model.order(Order("challenge", "a", options=options))
        assert model.status().logged == 0
