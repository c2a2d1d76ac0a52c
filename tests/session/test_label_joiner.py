"""The one joiner of labels, against those of runs and of served models that it replaced."""

from __future__ import annotations

import random
from typing import Any

import pytest
from reference_joiners import JoinerOfRuns, JoinerOfServedModels

from driftsurf.session.label_joiner import LabelJoiner
from driftsurf.session.late_saved import Waiting


@pytest.mark.parametrize("timeout", [None, 7.0])
@pytest.mark.parametrize("seed", range(8))
def test_joins_of_runs(seed: int, timeout: float | None) -> None:
    chance, most = random.Random(seed), 6
    old, new = JoinerOfRuns(most, timeout), LabelJoiner[Waiting](most)
    counts, time, row = dict.fromkeys(old.counts, 0), 0.0, 0
    for _ in range(400):
        time += chance.choice((0.0, 1.0, 2.0))
        keys = [chance.randrange(25) for _ in range(chance.randrange(5))]
        change = new.change()

        def over(one: Waiting, first: int, time: float = time) -> bool:
            return one.row < first or (timeout is not None and one.time < time - timeout)

        if chance.random() < 0.5:
            old.come(keys, time)
            for place, key in enumerate(keys):
                change.come(key, Waiting(row + place, None, 0, time))
            row += len(keys)
            first = row - most
            change.lose(lambda one, first=first, over=over: over(one, first))  # type: ignore[misc]
        else:
            values = [chance.random() for _ in keys]
            found = old.label(keys, values, time)
            first = row - most
            change.lose(lambda one, first=first, over=over: over(one, first))  # type: ignore[misc]
            ready = {key: label for key, label in new.ready.items() if key in change.ready}
            given = [*ready.items(), *zip(keys, values, strict=True)]
            joined = [(key, change.label(key, value), value) for key, value in given]
            assert [(key, one.row, value) for key, one, value in joined if one is not None] == found
        change.end()
        for _ in range(chance.choice((1, 2))):  # broken off after it was applied, and applied again
            change.apply()
        counts = {name: count + change.counts[name] for name, count in counts.items()}
        assert counts == old.counts
        for name in ("waiting", "learned", "lost", "early", "ready"):
            assert list(getattr(new, name)) == list(getattr(old.tables, name)), name
        assert (new.waiting, new.early, new.ready) == (old.tables.waiting, old.tables.early, old.tables.ready)


@pytest.mark.parametrize("timeout", [None, 7.0])
@pytest.mark.parametrize("seed", range(8))
def test_joins_of_served_models(seed: int, timeout: float | None) -> None:
    chance, most = random.Random(seed), 6
    old = JoinerOfServedModels(most)
    new: LabelJoiner[int] = LabelJoiner(most, most_waiting=most, early_at_once=True, one_table=True)
    time, joined = 0.0, list[Any]()
    for _ in range(2_000):
        time += chance.choice((0.0, 0.0, 1.0))
        if timeout is not None:
            before = time - timeout
            old._expire(before)
            new.lose(lambda row, before=before: old.times[row] < before)  # type: ignore[misc]
        key, value = f"i{chance.randrange(25)}", chance.choice((0.0, 1.0))
        if chance.random() < 0.5:
            row = len(old.times)
            old.times.append(time)
            old._come(key, row)
            code = new.come(key, row)
            joined += [] if code is None else [(key, row, code)]
        else:
            old._label(key, value)
            waited = new.label(key, value)
            joined += [] if waited is None else [(key, waited, value)]
        assert new.counts == old._counts
        assert joined == old.joined
        tables = new.waiting, new.early, new.learned
        assert [list(table.items()) for table in tables] == [
            list(table.items()) for table in (old._waiting, old._early, old._done)
        ]
