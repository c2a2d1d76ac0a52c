"""Folders that a version leaves behind and a later one goes on with: stopped runs, keyed runs, and served models.

They are cases as those of ``golden_cases.py``, kept in ``tests/golden/VERSION``: see ``tests/golden/write.py``.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
from golden_cases import DECIDED, Case, Record
from golden_runs import RUNS, Stop, write_sources

import driftsurf
from driftsurf.data.frames import read_table
from driftsurf.data.tables import Table
from driftsurf.keyed import KeyedFolder
from driftsurf.service.contract import Answer, Order
from driftsurf.service.follower import Follower
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.settings import Keeping, ModelSettings

TRACED = "step", "first_row", "rows", "state", "predicted_by", "trained_from", "gradients", "learned"
"""Columns of a trace that are decisions; how errors are counted and shown may change."""
KEPT = (
    *("rows", "steps", "state", "scored", "duplicates", "refused", "gaps", "transitions", "last_transition"),
    *("last_transition_at", "high_water", "waiting", "quarantine", "quarantined_at", "quarantine_column"),
)
"""Columns of the table of keys that do not depend on last bits, the layout of a state, or the wording of a message."""
_COMMON: dict[str, Any] = {"checkpoint": "live", "every": 2, "batch_size": 16, "predictions": "predictions.csv"}
MORE_RUNS: dict[str, dict[str, Any]] = {
    "light": {"source": "rows.csv", "label": "sold", "drop": ["id", "at"], "model": "recommended-light", **_COMMON},
    "default": {"source": "rows.csv", "label": "city", "drop": ["id", "price"], **_COMMON},
    "default-numbers": {"source": "rows.jsonl", "label": "price", "drop": ["id"], **_COMMON},
    "wrapped": {
        "source": "rows.csv",
        "label": "city",
        "drop": ["id"],
        "model": "driftsurf",
        "learner": "sklearn.tree:DecisionTreeClassifier",
        **_COMMON,
    },
    "late-light": {
        "source": "rows.csv",
        "label": "sold",
        "key": "id",
        "labels": "labels.csv",
        "model": "recommended-light",
        **_COMMON,
    },
    "keyed-quarantine": {**RUNS["keyed"], "source": "bad.csv", "drop": ["id", "size"], "on_gap": "quarantine"},
    "keyed-gaps": {**RUNS["keyed"], "source": "bad.csv", "classes": ("False", "True"), "epoch": 20},
    "keyed-tails": {**RUNS["keyed"], "epoch": 8, "batch_size": 10},
    "keyed-portfolio": {**RUNS["keyed"], "model": "recommended-light"},
    "keyed-numbers": {**RUNS["keyed"], "label": "price", "task": "regression"},
}
"""Arguments of ``driftsurf.run`` for runs besides those of ``golden_runs``."""
RESUMED: dict[str, dict[str, Any]] = {"keyed-gaps": {"readmit": {"b": 60}}}
"""Further arguments with which a run is resumed."""


# ---------------------------------------------------------------------------- runs


def _run(options: Mapping[str, Any], place: Path, stop_at: int | None = None) -> None:
    """Begin or resume a run in a folder; it is killed at ``stop_at``."""

    def count(at: int, *_: Any) -> None:
        if at == stop_at:
            raise Stop

    own: dict[str, Any] = {"on_epoch": count} if "epoch" in options else {"on_step": count, "resume": True}
    with contextlib.chdir(place), contextlib.suppress(Stop):
        driftsurf.run(progress=False, **options, **own)


def _run_case(options: Mapping[str, Any], resumed: Mapping[str, Any]) -> Case:
    keyed, library = "epoch" in options, "sklearn" if "learner" in options else "lightgbm"
    named = options.get("model", "recommended" if not keyed else "")

    def sources(place: Path) -> None:
        write_sources(place)
        lines = (place / "rows.csv").read_text().splitlines()
        bad = [
            line.replace("True", "perhaps") if ",b," in line and 30 < number < 60 else line
            for number, line in enumerate(lines)
        ]
        cells = next(line for line in lines[35:] if ",c," in line).split(",")
        bad = [line.replace(cells[3], "", 1) if line.split(",") == cells else line for line in bad]
        (place / "bad.csv").write_text("\n".join(bad) + "\n")

    def begin(place: Path) -> None:
        sources(place)
        known = list(place.iterdir())
        _run(options, place, stop_at=80 // options["epoch"] - 1 if keyed else 5)
        for path in (*known, *(place / "live" / left for left in ("lock", "fence", "timings.json"))):
            path.unlink(missing_ok=True)

    def go_on(place: Path) -> Record:
        sources(place)
        _run({**options, **resumed}, place)
        return _keyed_results(place / "live") if keyed else _results(place)

    return Case(
        begin, go_on, (library,) if named in ("recommended", "recommended-trees") or "learner" in options else ()
    )


def _results(place: Path) -> Record:
    """Return what a run has predicted and decided: predictions, transitions, and the columns of its trace."""
    found: Record = {"predictions": {}}
    for path in sorted(place.glob("predictions*.csv")):
        found["predictions"][path.name] = _columns(path.read_text())
    live = place / "live"
    found["transitions"] = _transitions(map(json.loads, (live / "journal.jsonl").read_text().splitlines()))
    text = (live / "trace.csv").read_text()
    trace = _columns("".join(line for line in text.splitlines(True) if not line.startswith("#")))
    return found | {"trace": {name: trace[name] for name in TRACED if name in trace}}


def _transitions(lines: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Return the transitions in a journal, without texts."""
    found = [line for line in lines if line.get("type") == "transition"]
    return [{name: line[name] for name in DECIDED} for line in found]


def _columns(text: str) -> dict[str, list[Any]]:
    """Return the columns of a CSV text, with cells that are numbers as numbers."""
    head, *lines = csv.reader(text.splitlines())
    return {name: [_cell(line[at]) for line in lines] for at, name in enumerate(head)}


def _cell(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _keyed_results(live: Path) -> Record:
    folder = KeyedFolder(live)
    keys = {str(key): {name: entry[name] for name in KEPT} for key, entry in sorted(folder.keys().items())}
    journal = folder.read("journal")
    return {
        "keys": keys,
        "predictions": _sorted(folder.read("predictions")),
        "transitions": _sorted({name: journal[name] for name in ("key", "sequence", "transitions")}),
    }


def _sorted(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return a table with its rows in the order of keys and sequence numbers."""
    order = sorted(range(len(table["key"])), key=lambda at: (str(table["key"][at]), table["sequence"][at]))
    return {name: [column[at] for at in order] for name, column in table.items()}


# ---------------------------------------------------------------------------- served models

SERVED: dict[str, dict[str, Any]] = {
    "driftsurf": {"task": "binary", "model": "driftsurf"},
    "light": {"task": "binary", "model": "recommended-light"},
    "light-many": {"task": "multiclass", "model": "recommended-light"},
    "numbers": {"task": "regression", "model": "recommended-linear"},
}
"""Settings of served models."""
KEEPING = Keeping(least_free_bytes=0, checkpoint_rows=40, checkpoint_seconds=1e9, restore_points=8)
BATCH = 20


def _table(seed: int, task: str, count: int = BATCH) -> tuple[Table, list[Any]]:
    """Return rows and labels; the rule is another one from the seed 6 on."""
    random = np.random.default_rng([11, seed])
    price = random.normal(size=count).round(2)
    city = np.where(random.random(count) < 0.5, "Rome", "Oslo")
    city[random.random(count) < 0.1] = ""
    z = (price + (city == "Rome")) * (1 if seed < 6 else -1) + random.normal(scale=0.2, size=count).round(2)
    bounds = {"binary": [0.3], "multiclass": [-0.3, 0.8]}
    names = np.array(["no", "perhaps", "yes"] if task == "multiclass" else ["no", "yes"])
    labels: npt.NDArray[Any] = z.round(2) if task == "regression" else names[np.digitize(z, bounds[task])]
    return read_table({"price": price, "city": city}), labels.tolist()


def _learn(model: ServedModel, seeds: range, task: str) -> None:
    """Learn a batch for each seed; the last five rows of each wait for labels by id."""
    for seed in seeds:
        table, labels = _table(seed, task)
        model.learn(table.rows(0, 15), labels[:15]).result(60)
        if seed:  # an order is carried out after what was learned, so that the newest version answers
            model.order(Order("unpin")).result(60)
        model.predict(table.rows(15, BATCH), _ids(seed))
        if seed and seed % 3:
            model.label(dict(zip(_ids(seed - 1), _table(seed - 1, task)[1][15:], strict=True))).result(60)
        model.order(Order("unpin")).result(60)


def _ids(seed: int) -> list[str]:
    return [f"row-{seed}-{at}" for at in range(15, BATCH)]


def _served_case(settings: Mapping[str, Any]) -> Case:
    task: str = settings["task"]
    asked = ModelSettings(label="sold", batch_size=BATCH, columns={"price": "number", "city": "text"}, **settings)

    def begin(place: Path) -> None:
        with contextlib.closing(open_model(place / "sales", asked, KEEPING, clock=_clock())) as model:
            assert model.wait_ready(60)
            _learn(model, range(5), task)
            assert model.order(Order("challenge", "aue", options={"model": "aue"})).result(60).done
            _learn(model, range(5, 9), task)
            # What comes from here on is in the log only, as after a crash.
            with mock.patch.object(Follower, "checkpoint", return_value=False):
                _learn(model, range(9, 11), task)
                model.close()
        for path in (place / "sales").rglob("*"):
            if path.name in ("lock", "fence"):
                path.unlink()

    def go_on(place: Path) -> Record:
        with contextlib.closing(open_model(place / "sales", asked, KEEPING, clock=_clock(2000.0))) as model:
            assert model.wait_ready(60)
            probe = _table(99, task)[0]
            found: Record = {"opened": _status(model), "loaded": _answer(model.predict(probe))}
            for seed in (2, 8):
                model.label(dict(zip(_ids(seed), _table(seed, task)[1][15:], strict=True))).result(60)
            model.order(Order("unpin")).result(60)
            point = next(one.position for one in model.status().restore_points if one.version)
            _learn(model, range(11, 13), task)
            found |= {"continued": _status(model), "learned": _answer(model.predict(probe))}
            assert model.order(Order("rollback", to=point)).result(60).done
            found |= {"restored": _answer(model.predict(probe))}
            _learn(model, range(13, 15), task)
            assert model.order(Order("promote", "aue")).result(60).done
            ended = _status(model)
            ended["applied"] -= 1  # the record of the state that the rollback returns to, which 0.2.0 did not log
            found |= {"ended": ended, "promoted": _answer(model.predict(probe))}
            return found | {"transitions": _transitions(one.record for one in model.journal(0, 10_000))}

    return Case(begin, go_on)


def _clock(start: float = 1000.0) -> Callable[[], float]:
    ticks = itertools.count()
    return lambda: start + next(ticks)


def _answer(answer: Answer) -> Record:
    assert answer.labels is not None
    shares = [] if answer.probabilities is None else np.asarray(answer.probabilities)[::3].tolist()
    return {"version": answer.version, "labels": list(np.asarray(answer.labels).tolist()), "shares": shares}


def _status(model: ServedModel) -> Record:
    now = model.status()
    return {
        "rows": now.rows,
        "steps": now.steps,
        "applied": now.applied,
        "labels": {name: getattr(now.labels, name) for name in ("predicted", "labelled", "scored")},
        "challengers": [(one.name, one.steps) for one in now.challengers],
    }


# ---------------------------------------------------------------------------- groups


def _runs() -> Iterator[tuple[str, Case]]:
    for name, options in (RUNS | MORE_RUNS).items():
        yield name, _run_case(options, RESUMED.get(name, {}))


def _served() -> Iterator[tuple[str, Case]]:
    for name, settings in SERVED.items():
        yield name, _served_case(settings)


GROUPS: dict[str, Callable[[], Iterator[tuple[str, Case]]]] = {"runs": _runs, "served": _served}
"""Cases by their name, in groups."""
