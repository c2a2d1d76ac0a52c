"""Orders about challengers and restore points: names, dismissals, and how far back a rollback reaches."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftsurf.data.log.file_log import FileLog
from driftsurf.data.log.records import Kinds, Record, encode
from driftsurf.data.tables import Column, Table
from driftsurf.errors import NameTakenError, OptionError
from driftsurf.service.contract import Order, Request
from driftsurf.service.model import ServedModel, folder_blueprint, open_model
from driftsurf.service.replayed_state import DAY, spaced
from driftsurf.service.settings import CHECKPOINTS, Keeping, ModelSettings

ROWS = 20
SETTINGS = ModelSettings(
    label="sold", classes=("no", "yes"), model="driftsurf", batch_size=ROWS, columns={"price": "number"}
)
KEEPING = Keeping(least_free_bytes=0, checkpoint_seconds=1000.0)
AUE = {"model": "aue"}


def learn(model: ServedModel, steps: int = 1) -> None:
    price = np.random.default_rng(model.log.next).normal(size=steps * ROWS)
    table = Table({"price": Column("number", price)})
    model.learn(table, np.where(price > 0, "yes", "no")).result(60)
    model.order(Order("unpin")).result(60)


def names(model: ServedModel) -> list[str]:
    return [one.name for one in model.status().challengers]


# ---------------------------------------------------------------------------- challengers


def test_a_challenger_is_replaced_only_if_the_order_says_so(tmp_path: Path) -> None:
    with closing(open_model(tmp_path / "m", SETTINGS, KEEPING)) as model:
        assert model.wait_ready(60)
        learn(model)
        asked = Request("key", hashlib.sha256(b"aue").digest())
        first = model.order(Order("challenge", "aue", options=AUE), asked).result(60)
        learn(model, 10)
        assert model.status().challengers[0].steps == 9  # it had learned nothing before the first of ten
        with pytest.raises(NameTakenError, match="replace"):
            model.order(Order("challenge", "aue", options=AUE))
        assert model.order(Order("challenge", "aue", options=AUE), asked).result(60).position == first.position
        assert model.status().challengers[0].steps == 9  # it had learned nothing before the first of ten
        replaced = model.order(Order("challenge", "aue", options=AUE, replace=True)).result(60)
        assert "replaced" in replaced.text
        assert model.status().challengers[0].steps == 0
        assert model.order(Order("dismiss", "aue")).result(60).done
        assert "replaced" not in model.order(Order("challenge", "aue", options=AUE)).result(60).text


def test_the_steps_of_a_model_are_not_those_of_its_challenger(tmp_path: Path) -> None:
    with closing(open_model(tmp_path / "m", SETTINGS, KEEPING)) as model:
        assert model.wait_ready(60)
        learn(model, 3)
        model.order(Order("challenge", "aue", options=AUE)).result(60)
        learn(model, 2)
        assert model.status().steps == 5


def test_a_dismissed_challenger_of_the_configuration_stays_away(tmp_path: Path) -> None:
    def opened() -> ServedModel:
        return open_model(tmp_path / "m", SETTINGS, KEEPING, challengers={"aue": AUE})

    with closing(opened()) as model:
        learn(model)
        assert names(model) == ["aue"]
        assert model.order(Order("dismiss", "aue")).result(60).done
    for _ in range(2):  # the second time, the dismissal is only in a checkpoint
        with closing(opened()) as model:
            assert model.wait_ready(60)
            learn(model)
            assert names(model) == []
    with closing(opened()) as model:
        assert model.wait_ready(60)
        assert model.order(Order("challenge", "aue", options=AUE)).result(60).done
    with closing(opened()) as model:
        assert model.wait_ready(60)
        assert names(model) == ["aue"]
        assert model.settled_names == frozenset()


def test_a_challenger_is_ordered_once_before_the_first_step(tmp_path: Path) -> None:
    for _ in range(2):
        with closing(open_model(tmp_path / "m", SETTINGS, KEEPING, challengers={"aue": AUE})) as model:
            assert model.log.next == 1
    with closing(open_model(tmp_path / "m", SETTINGS, KEEPING, challengers={"aue": AUE})) as model:
        learn(model)
        assert names(model) == ["aue"]


def test_a_challenger_that_cannot_do_the_task_is_refused_with_its_name(tmp_path: Path) -> None:
    settings = ModelSettings(label="sold", classes=("a", "b", "c"), model="driftsurf")
    with closing(open_model(tmp_path / "m", settings, KEEPING)) as model:
        assert model.wait_ready(60)
        with pytest.raises(OptionError, match="margin"):
            model.order(Order("challenge", "margin", options={"learner": "svm"}))


def test_two_named_classes_of_a_new_model_are_a_binary_task(tmp_path: Path) -> None:
    def task(name: str, **more: Any) -> str:
        return folder_blueprint(tmp_path / name, ModelSettings(label="y", **more)).settings.task

    assert task("two", classes=("no", "yes")) == "binary"
    assert task("two", classes=("no", "yes")) == "binary"  # opened again
    assert task("more", classes=("a", "b", "c")) == "auto"
    assert task("said", classes=("no", "yes"), task="multiclass") == "multiclass"


# ---------------------------------------------------------------------------- restore points


@pytest.mark.parametrize("number", range(2, 9))
def test_restore_points_are_few_and_reach_back_about_a_day(number: int) -> None:
    times: list[float] = []
    for tick in range(int(4 * DAY / 60)):
        now = 60.0 * tick
        kept = [times[index] for index in spaced(times, now, number)]
        if times:
            assert times[-1] in kept
        times = [*kept, now]
        assert len(times) <= number
        assert times == sorted(set(times))
        if tick > 2 * DAY / 60 and number > 3:
            shortest = 60.0 * (DAY / 60) ** ((number - 3) / (number - 2))
            assert shortest - 60 <= now - times[0] <= DAY + shortest + 60


def test_a_rollback_to_before_a_promotion_names_the_model_to_promote(tmp_path: Path) -> None:
    keeping = Keeping(least_free_bytes=0, checkpoint_rows=1)
    with closing(open_model(tmp_path / "m", SETTINGS, keeping)) as model:
        assert model.wait_ready(60)
        learn(model, 3)
        point = model.status().restore_points[-1]
        assert model.order(Order("challenge", "aue", options=AUE)).result(60).done
        learn(model, 3)
        assert model.order(Order("promote", "aue")).result(60).done
        refused = model.order(Order("rollback", to=point.position)).result(60)
        assert (refused.done, refused.reason) == (False, "no-such-model")
        assert refused.text.endswith("promote a model that did: driftsurf")
        assert model.order(Order("promote", "driftsurf")).result(60).done
        assert model.order(Order("rollback", to=point.position)).result(60).done


def test_a_changed_model_is_named_as_the_service_names_it(tmp_path: Path) -> None:
    pytest.importorskip("httptools")
    from driftsurf.service.config import ModelConfig
    from driftsurf.service.opening import open_served
    from driftsurf.service.settings import ServedOptions

    open_served(tmp_path / "m", ModelConfig(ServedOptions(label="sold", model="driftsurf")), KEEPING)[0].close()
    with pytest.raises(OptionError, match="model was 'driftsurf'"):
        open_served(tmp_path / "m", ModelConfig(ServedOptions(label="sold", model="aue")), KEEPING)


def test_the_folder_of_a_served_model_is_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from driftsurf.report.saved_state import print_saved_state

    with closing(open_model(tmp_path / "m", SETTINGS, KEEPING)) as model:
        assert model.wait_ready(60)
        learn(model, 3)
    print_saved_state(tmp_path / "m")
    assert "60 rows in 3 steps" in capsys.readouterr().out


def test_a_rollback_to_a_damaged_restore_point_is_refused_and_the_model_goes_on(tmp_path: Path) -> None:
    with closing(open_model(tmp_path / "m", SETTINGS, replace(KEEPING, checkpoint_rows=ROWS))) as model:
        assert model.wait_ready(60)
        for _ in range(3):
            learn(model)
        heads = sorted((tmp_path / "m" / CHECKPOINTS).glob("head-*.state"))
        heads[0].write_bytes(b"damaged")
        with pytest.raises(OptionError, match="cannot be used"):
            model.order(Order("rollback", to=model.status().restore_points[0].position))
        learn(model)
        assert model.order(Order("rollback", to=model.status().restore_points[-1].position)).result(60).done
        assert model.status().phase == "ready"


def test_a_rollback_needs_nothing_but_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.service.admission.STATE_BYTES", 1_000)
    with closing(open_model(tmp_path / "m", SETTINGS, replace(KEEPING, checkpoint_rows=ROWS))) as model:
        assert model.wait_ready(60)
        for _ in range(6):
            learn(model)
        point = model.status().restore_points[0]
        assert model.order(Order("rollback", to=point.position)).result(60).done
        learn(model, 2)
        assert model.order(Order("promote", "nobody")).result(60).reason == "no-such-model"
        state = model.state()
    shutil.rmtree(tmp_path / "m" / CHECKPOINTS)
    with closing(open_model(tmp_path / "m", None, KEEPING)) as model:
        assert model.wait_ready(60)
        assert model.state() == state


def test_a_rollback_that_was_logged_without_a_state_takes_the_one_before(tmp_path: Path) -> None:
    kept = list[bytes]()
    for checkpointed in (True, False):  # the restore point is a checkpoint, or in the part of the log that is applied
        folder = tmp_path / str(checkpointed) / "m"
        with closing(open_model(folder, SETTINGS, KEEPING)) as model:
            assert model.wait_ready(60)
            for _ in range(4):
                learn(model)
            to = model.log.next
        with closing(open_model(folder, None, KEEPING)) as model:
            assert model.wait_ready(60)
            learn(model, 3)
            kept.append(model.state())
            shutil.copytree(folder, tmp_path / "crashed" / "m")
        with FileLog(tmp_path / "crashed" / "m" / "log") as log:
            log.add(encode(Record(kind=Kinds.ORDER, time=2e9, content={"kind": "rollback", "to": to})))
        if not checkpointed:
            shutil.rmtree(tmp_path / "crashed" / "m" / CHECKPOINTS)
        with closing(open_model(tmp_path / "crashed" / "m", None, KEEPING)) as model:
            assert model.wait_ready(60)
            last = model.journal(0, 10_000)[-1].record
            assert (last["order"], last["outcome"]) == ("rollback", "done")
            kept.append(model.state())
        shutil.rmtree(tmp_path / "crashed")
    assert kept[0] == kept[2]
    assert kept[1] == kept[3] != kept[0]
