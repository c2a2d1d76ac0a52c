"""A served model through its API: predicting, learning, late labels, orders, repeated requests, reopening."""

from __future__ import annotations

import hashlib
import html
import math
import re
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner

from driftsurf import __version__, load
from driftsurf.cli import main
from driftsurf.data.frames import read_table
from driftsurf.data.log.records import Kinds
from driftsurf.data.tables import Table
from driftsurf.errors import (
    AnswerGoneError,
    CapabilityError,
    IdempotencyError,
    InputError,
    LabelError,
    NonFiniteError,
    OptionError,
    OverloadedError,
    SchemaError,
    ShapeError,
    UnavailableError,
)
from driftsurf.evaluation.summary import rare_class_of, summarise_classification
from driftsurf.evaluation.trace import Trace
from driftsurf.runs.api import run
from driftsurf.runs.explanation.records import read_run
from driftsurf.runs.output import Rotation
from driftsurf.service.alert_readings import reading_of
from driftsurf.service.contract import Order, Request
from driftsurf.service.http.answers import model_info
from driftsurf.service.http.problems import problem_of
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.served_run import JournalFeed, JournalFile
from driftsurf.service.settings import Keeping, ModelSettings
from driftsurf.service.wire.rows import NumberRows, WireColumn

SETTINGS = ModelSettings(
    label="sold",
    task="binary",
    model="driftsurf",
    batch_size=20,
    columns={"price": "number", "city": "text"},
)
KEEPING = Keeping(least_free_bytes=0, checkpoint_seconds=1000.0)


def rows(count: int, seed: int = 0) -> tuple[Table, npt.NDArray[Any]]:
    chance = np.random.default_rng(seed)
    price, noise = chance.normal(size=count), chance.normal(scale=0.2, size=count)
    city = np.where(chance.random(count) < 0.5, "Rome", "Oslo")
    return read_table({"price": price, "city": city}), np.where(price + noise > 0, "yes", "no")


def settled(model: ServedModel) -> ServedModel:
    """Wait until everything logged is applied: an order is carried out after all records before it."""
    model.order(Order("unpin")).result(60)
    return model


@pytest.fixture
def model(tmp_path: Path) -> Iterator[ServedModel]:
    served = open_model(tmp_path / "sales", SETTINGS, KEEPING)
    assert served.wait_ready(60)
    yield served
    served.close()


def test_model_learns_and_predicts(model: ServedModel) -> None:
    table, labels = rows(400)
    assert model.predict(table).version == 0
    receipt = model.learn(table, labels).result(60)
    assert (receipt.count, receipt.durability) == (400, "disk")
    settled(model)
    answer = model.predict(table)
    assert answer.version == 20
    assert answer.labels is not None
    assert np.mean(answer.labels == labels) > 0.85
    assert answer.classes == ("no", "yes") or answer.classes == ("yes", "no")
    assert answer.probabilities is not None
    np.testing.assert_allclose(answer.probabilities.sum(axis=1), 1.0)
    assert [model.predict(table.rows(k, k + 1)).labels for k in range(3)] == list(answer.labels[:3])


def test_reported_error_is_that_of_the_answers(model: ServedModel) -> None:
    table, labels = rows(200)
    model.learn(table, labels).result(60)
    settled(model)
    later, _ = rows(40, seed=1)
    ids = [f"o-{k}" for k in range(40)]
    answer = model.predict(later, ids)
    assert answer.labels is not None
    # Every label says the opposite of what was answered: users saw 40 errors, whatever the model does meanwhile.
    wrong = {id: "no" if label == "yes" else "yes" for id, label in zip(ids, answer.labels, strict=True)}
    model.label(wrong).result(60)
    counts = settled(model).status().labels
    assert (counts.labelled, counts.scored, counts.errors) == (40, 40, 40)
    assert model.trace().splitlines()[-1].split(",")[0] == "11"


def test_early_late_duplicate_and_replaced_rows_are_counted(tmp_path: Path) -> None:
    now = [0.0]
    asked = ModelSettings(**{**_fields(SETTINGS), "timeout": 10.0, "max_pending": 5})
    with closing(open_model(tmp_path / "m", asked, KEEPING, clock=lambda: now[0])) as model:
        assert model.wait_ready(60)
        table, labels = rows(20)
        model.learn(table, labels).result(60)
        model.label({"early": "yes"}).result(60)
        assert settled(model).status().early == 1
        one = table.rows(0, 1)
        model.predict(one, ["early"])
        model.predict(one, ["twice"])
        model.predict(one, ["twice"])
        model.label({"twice": "yes"}).result(60)
        model.label({"twice": "yes"}).result(60)
        model.predict(one, ["old"])
        now[0] = 20.0
        model.label({"old": "no"}).result(60)
        for k in range(7):
            model.predict(one, [f"many-{k}"])
        counts = settled(model).status().labels
    assert counts.predicted == 11
    assert (counts.labelled, counts.replaced, counts.duplicate, counts.late) == (2, 1, 1, 1)
    assert (counts.expired, counts.waiting) == (1 + 2, 5)


def test_the_oldest_row_that_waits_is_known_with_its_time(tmp_path: Path) -> None:
    now = [1000.0]
    with closing(open_model(tmp_path / "m", SETTINGS, KEEPING, clock=lambda: now[0])) as model:
        table, labels = rows(40)
        assert model.wait_ready(60)
        model.learn(table, labels).result(60)
        assert settled(model).status().oldest_waiting is None
        for time, id in ((2000.0, "a"), (3000.0, "b")):
            now[0] = time
            model.predict(table.rows(0, 1), [id])
        assert settled(model).status().oldest_waiting == 2000.0
        model.label({"a": labels[0]}).result(60)
        assert settled(model).status().oldest_waiting == 3000.0
    with closing(open_model(tmp_path / "m", keeping=KEEPING)) as model:
        assert model.wait_ready(60)
        assert model.status().oldest_waiting == 3000.0


def test_repeated_request_is_answered_and_not_applied_again(tmp_path: Path) -> None:
    table, labels = rows(40)
    asked = Request("k-1", hashlib.sha256(b"body").digest())
    with closing(open_model(tmp_path / "m", SETTINGS, KEEPING)) as model:
        assert model.wait_ready(60)
        first = model.learn(table, labels, asked).result(60)
        again = model.learn(table, labels, asked).result(60)
        assert (again.position, again.repeated, first.repeated) == (first.position, True, False)
        with pytest.raises(IdempotencyError, match="k-1"):
            model.learn(table, labels, Request("k-1", hashlib.sha256(b"other").digest()))
        given = model.predict(table, [f"i{k}" for k in range(40)], Request("k-2", hashlib.sha256(b"x").digest()))
    with closing(open_model(tmp_path / "m", keeping=KEEPING)) as model:
        assert model.wait_ready(60)
        again = model.learn(table, labels, asked).result(60)
        assert (again.position, again.repeated, again.count) == (first.position, True, 40)
        same = model.predict(table, [f"i{k}" for k in range(40)], Request("k-2", hashlib.sha256(b"x").digest()))
        assert (same.position, same.version, same.repeated) == (given.position, given.version, True)


def test_an_answer_that_the_log_has_dropped_is_told_from_a_failure(tmp_path: Path) -> None:
    keeping = Keeping(least_free_bytes=0, checkpoint_rows=1, segment_bytes=2000, retain_bytes=0, restore_points=2)
    table, asked = rows(20)[0], Request("k-1", hashlib.sha256(b"x").digest())
    ids = [f"i{k}" for k in range(20)]
    with closing(open_model(tmp_path / "m", SETTINGS, keeping)) as model:
        assert model.wait_ready(60)
        given = model.predict(table, ids, asked)
        assert given.position is not None
        for seed in range(50):
            model.learn(*rows(20, seed)).result(60)
            settled(model)
            if model.log.first > given.position:
                break
        logged = model.status().logged
        with pytest.raises(AnswerGoneError, match=r"k-1.*without ids, or with a new key") as caught:
            model.predict(table, ids, asked)
        assert problem_of(caught.value)[0].status == 410
        assert model.status().logged == logged
        assert model.predict(table, ids, Request("k-2", asked.digest)).labels is not None


@pytest.mark.parametrize(
    ("columns", "labels", "error"),
    [
        ({"price": [1.0]}, ["yes"], SchemaError),
        ({"price": [1.0], "city": ["Rome"], "more": [1.0]}, ["yes"], SchemaError),
        ({"price": ["a"], "city": ["Rome"]}, ["yes"], SchemaError),
        ({"price": [1.0], "city": ["Rome"]}, [], InputError),
        ({"price": [1.0], "city": ["Rome"]}, ["yes", "no"], ShapeError),
        ({"price": [1.0], "city": ["Rome"]}, [1], LabelError),
    ],
)
def test_bad_input_is_refused_before_it_is_logged(
    model: ServedModel, columns: dict[str, Any], labels: list[Any], error: type[Exception]
) -> None:
    table, good = rows(20)
    model.learn(table, good).result(60)
    before = model.status().logged
    with pytest.raises(error):
        model.learn(read_table(columns), labels)
    with pytest.raises(InputError):
        model.label({"": "yes"})
    with pytest.raises(InputError):
        model.predict(table, ["same"] * 20)
    assert model.status().logged == before


@pytest.mark.parametrize("learner", ["logistic", "softmax"])
def test_third_class_of_a_binary_model_is_refused_before_it_is_logged(tmp_path: Path, learner: str) -> None:
    asked = ModelSettings(**{**_fields(SETTINGS), "learner": learner})
    table, labels = rows(3)[0], ["yes", "no", "maybe"]
    refusal = "would be a third class.*task='multiclass'"
    with closing(open_model(tmp_path / "m", asked, KEEPING)) as model:
        assert model.wait_ready(60)
        with pytest.raises(LabelError, match=refusal):
            model.learn(table, labels)
        model.learn(table, ["yes", "no", "yes"]).result(60)
        logged = model.status().logged
        with pytest.raises(LabelError, match=f"'maybe' {refusal}"):
            model.label({"a": "yes", "b": "maybe"})
        with pytest.raises(LabelError, match=f"'maybe' {refusal}"):
            model.learn(table, labels)
        assert model.status().logged == logged == 1
    with pytest.raises(OptionError, match="3 classes for the task 'binary'"):
        open_model(tmp_path / "other", ModelSettings(task="binary", classes=("a", "b", "c")))


def test_orders_are_carried_out_and_survive_reopening(tmp_path: Path) -> None:
    table, labels = rows(200)
    with closing(open_model(tmp_path / "m", SETTINGS, KEEPING, challengers={"svm": {"learner": "svm"}})) as model:
        model.learn(table, labels).result(60)
        assert not model.order(Order("promote", "nobody")).result(60).done
        assert model.order(Order("warm", "svm")).result(60).done
        for k in range(6):
            model.learn(*rows(60, seed=k)).result(60)
        settled(model)
        (challenger,) = model.status().challengers
        assert challenger.steps >= 8
        assert challenger.low <= challenger.difference <= challenger.high
        assert model.order(Order("pin")).result(60).done
        assert model.order(Order("promote", "svm")).result(60).done
        with pytest.raises(OptionError, match="restore point"):
            model.order(Order("rollback", to=-5))
        with pytest.raises(OptionError, match="restore_points"):
            model.order(Order("rollback"))
    with closing(open_model(tmp_path / "m", keeping=KEEPING)) as model:
        assert model.wait_ready(60)
        status = model.status()
        assert (status.model, [one.name for one in status.challengers]) == ("svm", ["driftsurf"])
        version = status.version
        model.learn(*rows(40, seed=9)).result(60)
        assert settled(model).status().version == version + 2
        point = status.restore_points[-1]
        assert model.order(Order("rollback", to=point.position)).result(60).done
        assert model.status().version == point.version
        assert [one.steps for one in model.status().challengers] == [0]  # compared with the restored model from now on
        kinds = [event.record.get("order") for event in model.journal() if event.record["type"] == "order"]
        assert kinds[-1] == "rollback"
        reset = model.order(Order("reset")).result(60)  # the model counts fewer steps than the run now
        (step,) = {event.record["step"] for event in model.journal() if event.line == reset.line}
        assert reset.text.startswith(f"step {step}: ")
        assert [event.line for event in model.journal()] == list(range(1, len(model.journal()) + 1))


def test_a_repeated_order_has_the_outcome_of_an_earlier_process(tmp_path: Path) -> None:
    asked = Request("k", hashlib.sha256(b"pin").digest())
    with closing(open_model(tmp_path / "m", SETTINGS, KEEPING)) as model:
        model.learn(*rows(60)).result(60)
        first = model.order(Order("pin"), asked).result(60)
    with closing(open_model(tmp_path / "m", keeping=KEEPING)) as model:
        assert model.wait_ready(60)
        again = model.order(Order("pin"), asked).result(60)
        assert (again.position, again.line, again.text, again.done) == (first.position, first.line, first.text, True)
        assert again.repeated


def test_a_rollback_that_is_refused_logs_no_state(model: ServedModel) -> None:
    model.learn(*rows(60)).result(60)
    settled(model)
    run = model._follower.run
    assert run is not None
    run.checkpoint()
    point = run.replayed.points[-1]
    asked = Request("k", hashlib.sha256(b"pin").digest())
    model.order(Order("pin"), asked).result(60)
    other = Request("k", hashlib.sha256(b"rollback").digest())
    logged = model.log.next
    with pytest.raises(IdempotencyError):
        model.order(Order("rollback", to=point.position), other)
    assert model.log.next == logged
    assert model.order(Order("rollback", to=point.position)).result(60).done
    kinds = [payload[0] for _, payload in model.log.read(logged)]
    assert kinds == [Kinds.STATE] * (len(kinds) - 1) + [Kinds.ORDER]


def test_a_request_that_comes_twice_at_once_is_logged_once(model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model.learn(*rows(60)).result(60)
    table, asked, inner = settled(model).predict(rows(1)[0]), Request("k", hashlib.sha256(b"x").digest()), list[Any]()
    assert table.labels is not None
    find = model._admission.keys.find

    def found(request: Request, kind: Any) -> Any:
        known = find(request, kind)
        if known is None and not inner:
            inner.append(None)
            inner[0] = model.predict(rows(1)[0], ["a"], asked)  # between the search for the key and the record
        return known

    monkeypatch.setattr(model._admission.keys, "find", found)
    outer = model.predict(rows(1)[0], ["a"], asked)
    assert (outer.position, outer.repeated, inner[0].repeated) == (inner[0].position, True, False)
    assert model.status().logged == inner[0].position + 1


def test_lines_of_the_journal_keep_their_numbers_while_others_are_written(tmp_path: Path) -> None:
    feed = JournalFeed()
    file = JournalFile(tmp_path.joinpath, "journal", Rotation(200, 10**6), feed)
    file.begin()
    wrong = list[Any]()

    def write() -> None:
        for number in range(1, 2001):
            file.write(f'{{"n":{number}}}\n')
            file.rotate()

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        feed._last.clear()  # so that the files are read
        wrong += [one for one in feed.since(0, 10**6) if one.line != one.record["n"]]
    writer.join()
    file.close()
    assert not wrong


def test_state_report_and_explanation(model: ServedModel, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        model.report()
    with pytest.raises(CapabilityError, match="'sales'"):
        model.state()
    table, labels = rows(200)
    model.learn(table, labels).result(60)
    settled(model)
    events = model.journal()
    assert [event.line for event in events] == list(range(1, len(events) + 1))
    assert sum(event.record["type"] == "step" for event in events) == 10
    assert events[-1].record["type"] == "order"
    path = tmp_path / "model.state"
    path.write_bytes(model.state())
    found = load(path).predict({"price": table["price"].values, "city": table.labels("city")})
    answer = model.predict(table)
    assert answer.labels is not None
    assert found.tolist() == answer.labels.tolist()
    assert "<html" in model.report()
    assert f"version {__version__}" in model.report()
    assert "step" in model.explain()


def test_model_of_a_run_goes_live(tmp_path: Path) -> None:
    table, labels = rows(2000)
    lines = [f"{price},{city},{label}" for price, city, label in zip(
        table["price"].values, table.labels("city"), labels, strict=True)]  # fmt: skip
    (tmp_path / "sales.csv").write_text("price,city,sold\n" + "\n".join(lines) + "\n")
    run(tmp_path / "sales.csv", label="sold", model="driftsurf", batch_size=100, out=tmp_path / "run")
    asked = ModelSettings(start_from=str(tmp_path / "run"), batch_size=20)
    with closing(open_model(tmp_path / "live", asked, KEEPING)) as model:
        assert model.wait_ready(60)
        answer = model.predict(table)
        assert answer.version == 20
        assert answer.labels is not None
        assert np.mean(answer.labels == labels) > 0.85
        model.learn(table, labels).result(60)
        assert settled(model).status().version == 120
    with closing(open_model(tmp_path / "live", keeping=KEEPING)) as model:
        assert model.wait_ready(60)
        assert model.status().version == 120


@pytest.mark.parametrize("learner", ["logistic", "softmax"])
def test_a_third_class_is_refused_by_the_model_of_a_run_of_two(tmp_path: Path, learner: str) -> None:
    table, labels = rows(200)
    cells = zip(table["price"].values, table.labels("city"), labels, strict=True)
    lines = [f"{price},{city},{label}" for price, city, label in cells]
    (tmp_path / "sales.csv").write_text("price,city,sold\n" + "\n".join(lines) + "\n")
    run(tmp_path / "sales.csv", label="sold", model="driftsurf", learner=learner, batch_size=50, out=tmp_path / "run")
    asked = ModelSettings(start_from=str(tmp_path / "run"), batch_size=20)
    given = ["yes", "no", "perhaps"]
    for settings in (asked, None):  # also after it was opened again
        with closing(open_model(tmp_path / "live", settings, KEEPING)) as model:
            assert model.wait_ready(60)
            logged = model.status().logged
            with pytest.raises(LabelError, match=r"'perhaps'.*'no', 'yes'.*task='multiclass'") as caught:
                model.learn(table.rows(0, 3), given)
            assert (caught.value.row, caught.value.value) == (2, "perhaps")
            with pytest.raises(LabelError, match="'perhaps'"):
                model.label({"a": "yes", "b": "perhaps"})
            assert model.status().logged == logged
            model.learn(*rows(20)).result(60)
            settled(model)


@pytest.mark.parametrize(("task", "bad"), [("regression", "dear"), ("multiclass", 3), ("multiclass", "c")])
def test_a_bad_label_is_named_with_its_row(tmp_path: Path, task: Any, bad: Any) -> None:
    regression = task == "regression"
    good = [1.0, 2.0] if regression else ["a", "b"]
    asked = ModelSettings(task=task, model="driftsurf", batch_size=30, classes=() if regression else ("a", "b"))
    with closing(open_model(tmp_path / "m", asked, KEEPING)) as model:
        assert model.wait_ready(60)
        with pytest.raises(LabelError) as caught:
            model.label({"x": good[0], "y": bad, "z": good[1]})
        assert (caught.value.row, caught.value.value) == (1, bad)
        assert "kinds=" not in str(caught.value)
        assert model.status().logged == 0


@pytest.mark.parametrize(("task", "classes"), [("multiclass", 3), ("regression", 0)])
def test_other_tasks(tmp_path: Path, task: Any, classes: int) -> None:
    table, _ = rows(300)
    price = table["price"].values
    y = np.array(["a", "b", "c"])[np.digitize(price, [-0.5, 0.5])] if classes else 3.0 * price + 1.0
    asked = ModelSettings(task=task, model="driftsurf", batch_size=30)
    with closing(open_model(tmp_path / "m", asked, KEEPING)) as model:
        assert model.wait_ready(60)
        model.predict(table.rows(0, 5), list("abcde"))
        model.label(dict(zip("abcde", y[:5].tolist(), strict=True))).result(60)
        model.learn(table, y).result(60)
        answer = settled(model).predict(table)
        assert model.columns[1].kind == "text"
        assert len(answer.classes) == classes
        assert answer.labels is not None
        if classes:
            assert np.mean(answer.labels == y) > 0.7
        else:
            assert np.mean(np.square(answer.labels - y)) < 1.0


def test_failed_learner_makes_the_model_read_only(model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    table, labels = rows(40)
    model.learn(table, labels).result(60)
    settled(model)

    def fail(*arguments: object) -> None:
        raise MemoryError("no memory")

    monkeypatch.setattr(model._follower.run, "take_step", fail)
    model.learn(table, labels).result(60)
    model._follower._thread.join(60)
    status = model.status()
    assert (status.phase, status.ready) == ("failed", False)
    assert "no memory" in status.failure
    assert model.predict(table).version == 2
    for call in (lambda: model.learn(table, labels), lambda: model.predict(table, [f"{k}" for k in range(40)])):
        with pytest.raises(UnavailableError, match="no memory"):
            call()


@pytest.mark.parametrize(
    ("limit", "message"), [("max_lag_rows", "40 rows and labels wait"), ("max_lag_bytes", "bytes of records wait")]
)
def test_too_much_that_waits_to_be_learned_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, message: str
) -> None:
    table, labels = rows(40)
    keeping = Keeping(least_free_bytes=0, checkpoint_seconds=1000.0, **{limit: 39})
    go_on = threading.Event()
    with closing(open_model(tmp_path / "m", SETTINGS, keeping)) as model:
        assert model.wait_ready(60)
        model.learn(table, labels).result(60)  # nothing is refused before the model has begun
        settled(model)
        follower = model._follower
        apply = follower._apply
        monkeypatch.setattr(follower, "_apply", lambda *given: (go_on.wait(60), apply(*given)))
        model.learn(table, labels).result(60)
        logged = model.status().logged
        for call in (
            lambda: model.learn(table, labels),
            lambda: model.label({"a": "yes"}),
            lambda: model.predict(table.rows(0, 1), ["a"]),
        ):
            with pytest.raises(OverloadedError, match=message) as caught:
                call()
            assert caught.value.retry_after == 1.0
        assert model.status().logged == logged
        assert model.predict(table).version == 2
        go_on.set()
        settled(model)
        model.learn(table, labels).result(60)
        assert settled(model).status().version == 6


def test_settings_of_a_folder_cannot_be_changed(tmp_path: Path) -> None:
    open_model(tmp_path / "m", SETTINGS, KEEPING).close()
    with pytest.raises(OptionError, match="batch_size was 20"):
        open_model(tmp_path / "m", ModelSettings(**{**_fields(SETTINGS), "batch_size": 30}), KEEPING)
    for given in (ModelSettings(label="sold"), ModelSettings(batch_size=20, task="binary")):  # the others are left out
        open_model(tmp_path / "m", given, KEEPING).close()
    with pytest.raises(OptionError, match="began without a run"):
        open_model(tmp_path / "m", ModelSettings(label="sold", start_from=str(tmp_path / "run")), KEEPING)
    with pytest.raises(OptionError, match="settings"):
        open_model(tmp_path / "other")


def test_columns_keep_their_order_when_a_folder_is_opened_again() -> None:
    assert list(ModelSettings.from_json(SETTINGS.to_json()).columns) == ["price", "city"]


def _fields(settings: ModelSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def test_numbers_are_answered_as_the_same_rows_in_a_table(tmp_path: Path) -> None:
    settings = ModelSettings(label="sold", task="binary", batch_size=20, columns={"b": "number", "a": "number"})
    values = np.random.default_rng(0).normal(size=(200, 2))
    table = read_table({"b": values[:, 0], "a": values[:, 1]})
    with closing(open_model(tmp_path / "sales", settings, KEEPING)) as served:
        assert served.wait_ready(60)
        assert served.snapshot.answer_numbers(values) is None
        served.learn(table, np.where(values[:, 0] > values[:, 1], "yes", "no")).result(60)
        settled(served)
        snapshot = served.snapshot
        expected, found = snapshot.answer(table), snapshot.answer_numbers(values)
        assert found is not None
        assert expected.labels is not None
        assert found.labels is not None
        assert expected.probabilities is not None
        assert found.probabilities is not None
        assert (found.version, found.labels.tolist()) == (expected.version, expected.labels.tolist())
        assert found.probabilities.tobytes() == expected.probabilities.tobytes()
        values[0, 0] = np.nan
        assert snapshot.answer_numbers(values) is None


def test_numbers_are_logged_as_the_same_rows_in_a_table(tmp_path: Path) -> None:
    settings = ModelSettings(label="sold", task="binary", batch_size=20, columns={"b": "number", "a": "boolean"})
    values = np.random.default_rng(0).normal(size=(50, 2))
    values[:, 1], values[3, 0] = values[:, 1] > 0, np.nan
    columns = WireColumn("b", "number"), WireColumn("a", "boolean")
    labels = np.where(values[:, 1] > 0, "yes", "no")
    with closing(open_model(tmp_path / "sales", settings, KEEPING, clock=lambda: 5.0)) as served:
        assert served.wait_ready(60)
        rows = NumberRows(columns, values)
        served.learn(rows.table(), labels).result(60)
        served.learn(rows, labels).result(60)
        turned = NumberRows(columns[::-1], values[:, ::-1])  # in another order: taken as a table
        served.learn(turned, labels).result(60)
        first, *others = [payload for _, payload in served.log.read(0)]
        assert others == [first, first]
        values[7, 0] = np.inf
        with pytest.raises(NonFiniteError) as caught:
            served.learn(rows, labels)
        assert (caught.value.row, caught.value.column) == (7, "b")
        values[7, 0] = 0.0
        with pytest.raises(SchemaError):
            served.learn(NumberRows(columns[:1], values[:, :1]), labels)
        with pytest.raises(ShapeError):
            served.learn(NumberRows(columns, values[:0]), [])
        assert served.log.next == 3


@pytest.mark.parametrize("label", [True, 1, "perhaps"])
def test_a_label_that_is_no_class_is_named_with_the_classes(tmp_path: Path, label: object) -> None:
    asked = ModelSettings(**{**_fields(SETTINGS), "classes": ("no", "yes")})
    with closing(open_model(tmp_path / "m", asked, KEEPING)) as model:
        assert model.wait_ready(60)
        with pytest.raises(LabelError, match=r"the label .* 'no', 'yes'") as caught:
            model.label({"a": "yes", "b": label})
        assert caught.value.value in (label, str(label))
        with pytest.raises(LabelError, match=r"the label .* 'no', 'yes'"):
            model.label({"b": label})


def test_error_now_is_that_of_the_last_steps_and_the_usual_one_that_of_all(model: ServedModel) -> None:
    table, labels = rows(1200)
    model.learn(table, labels).result(60)
    before = settled(model).status()
    assert (before.steps, before.error_rows) == (60, 500)
    ids = [f"o-{k}" for k in range(100)]
    answer = model.predict(table.rows(0, 100), ids)
    assert answer.labels is not None
    model.label(dict(zip(ids, np.where(answer.labels == "yes", "no", "yes").tolist(), strict=True))).result(60)
    after = settled(model).status()
    # 100 of 500 rows are wrong now; in all rows after the first step it is 100 of 1,280.
    assert after.error == pytest.approx((400 * _last_400(model) + 100) / 500)
    assert after.usual_error == pytest.approx((1180 * before.usual_error + 100) / 1280)
    assert reading_of(after, now=0.0).error_noise == pytest.approx(
        np.sqrt(after.usual_error * (1 - after.usual_error) / 500)
    )


def test_a_model_that_has_learned_nothing_answers_the_most_frequent_label(model: ServedModel) -> None:
    table, labels = rows(60)
    nothing = model.predict(table.rows(0, 3))
    assert (nothing.version, nothing.labels, nothing.guess) == (0, None, False)
    for count, given in ((10, "yes"), (7, "no")):  # a time step has 20 rows
        model.learn(table.rows(0, count), np.full(count, given)).result(60)
    until = time.monotonic() + 60
    while not model.predict(table.rows(0, 1)).guess and time.monotonic() < until:
        time.sleep(0.01)
    answer = model.predict(table.rows(20, 40), ids := [f"o-{k}" for k in range(20)], Request("a", b"1" * 32))
    assert (answer.version, answer.guess) == (0, True)
    assert answer.labels is not None
    assert set(answer.labels.tolist()) == {"yes"}
    assert model.predict(table.rows(20, 40), ids, Request("a", b"1" * 32)).guess
    model.label(dict.fromkeys(ids, "no")).result(60)
    model.learn(table.rows(40, 60), labels[40:]).result(60)
    found = settled(model)
    assert found.predict(table.rows(0, 1)).guess is False
    counts = found.status().labels
    assert (counts.labelled, counts.scored, counts.errors) == (20, 0, 0)  # a guess is no answer of a model
    trace = Trace.from_csv(found.trace())
    assert found.status().rows == trace.of(trace.models[0])["rows"].sum() == 40
    assert found.status().usual_error == summarise_classification(trace, trace.models[0]).mean_error


def test_trivial_rules_know_the_labels_that_had_come_when_the_rows_were_answered(model: ServedModel) -> None:
    table, labels = rows(300)
    model.learn(table.rows(0, 100), labels[:100]).result(60)
    settled(model).predict(table.rows(100, 200), ids := [f"o-{k}" for k in range(100)])
    model.learn(table.rows(200, 300), np.full(100, "no")).result(60)
    model.label(dict.fromkeys(ids, "yes")).result(60)
    trace = Trace.from_csv(settled(model).trace())
    found = trace.of(trace.models[0])["persistence_errors"][10:].tolist()
    assert found == [20 * (labels[99] != "yes")] * 5


def test_the_figures_of_a_rare_class_are_those_of_the_trace(model: ServedModel) -> None:
    table, _ = rows(1000)
    price = np.asarray(table["price"].values)
    labels = np.where(price > 1.6, "yes", "no")
    model.learn(table.rows(0, 500), labels[:500]).result(60)
    for start in range(500, 1000, 100):  # all of these rows are answered
        ids = [f"o-{start + k}" for k in range(100)]
        settled(model).predict(table.rows(start, start + 100), ids)
        model.label(dict(zip(ids, labels[start : start + 100].tolist(), strict=True))).result(60)
    status = settled(model).status()
    model.flush()
    record = read_run(model.folder / "checkpoints")
    assert record.trace is not None
    found = rare_class_of(record.trace, record.trace.models[0], record.scores)
    assert status.rare == found
    assert found is not None
    assert found.label == "yes"
    assert 0.5 < found.average_precision <= 1.0
    assert record.scores is not None
    assert all("auc_so_far" in line and "calibration" in line for line in record.scores.lines)  # of answered steps, too
    assert math.isnan(reading_of(status, now=0.0).trivial_error)
    assert model_info(status, model.judge(), [], [], "id").rare_class == {
        "label": "yes", "share": found.share, "recall": found.recall, "precision": found.precision,
        "average_precision": found.average_precision,
    }  # fmt: skip


def _last_400(model: ServedModel) -> float:
    """Return the mean error of the twenty steps before the last five, from the trace."""
    trace = Trace.from_csv(model.trace())
    return float(trace.of(trace.models[0])["error"][-25:-5].mean())


def test_explain_is_about_the_last_change_unless_everything_is_asked_for(model: ServedModel) -> None:
    with pytest.raises(UnavailableError, match="20 labelled rows"):
        model.explain()
    table, labels = rows(1200)
    flipped = np.where(labels == "yes", "no", "yes")
    model.learn(table, labels).result(60)
    model.learn(table, flipped).result(60)
    text = settled(model).explain()
    changed = [one.record for one in model.journal() if one.record.get("type") == "transition"]
    verdict, told = text.split("\n\n")
    assert " ".join(verdict.split()) == model.judge().verdict.text
    assert told.startswith(f"step {changed[-1]['step']},")
    assert "now, after step 119" in text
    assert len(text.splitlines()) < 15 < len(model.explain(everything=True).splitlines())
    assert model.explain(3).startswith("step 3,")


def test_the_command_of_the_report_page_runs(model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    table, labels = rows(200)
    model.learn(table, labels).result(60)
    page = settled(model).report()
    model.flush()
    command = re.findall(r'<pre class="command"><code>driftsurf (.*?)</code>', page)[0]
    assert "timings.json" not in page
    done = CliRunner().invoke(main, [*shlex.split(html.unescape(command)), "--out", str(model.folder.parent / "again")])
    assert done.exit_code == 0, done.output


def test_commands_about_runs_name_what_works_for_a_served_model(model: ServedModel) -> None:
    table, labels = rows(200)
    model.learn(table, labels).result(60)
    settled(model)
    explained = CliRunner().invoke(main, ["explain", str(model.folder)])
    assert f"{model.name}/checkpoints" in "".join(explained.output.split())
    for path in (model.folder, model.folder / "checkpoints"):
        predicted = CliRunner().invoke(main, ["predict", str(path), "rows.csv"])
        assert f"/v1/models/{model.name}/state" in "".join(predicted.output.split())
