"""Buckets of keys served by several processes that come and go: the same as a visit to each key, to the bit."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_cases import CASES, LEARNERS, TYPES, epochs_of, kind_of
from keyed_rows import late_rows, learner, part, rows

from driftsurf.errors import StateError
from driftsurf.keyed import KeyedLearner, KeyRows, key_cache
from driftsurf.keyed.results import Results
from driftsurf.keyed.rows import RowsByKey
from driftsurf.spark import bucket_store
from driftsurf.spark.bucket_store import SPAN, BucketLog, BucketServer, Head, ValuesInMemory, server_for

VISITED = {"visited": learner(batch_size=9), "guard": learner(guard=5.0), "each epoch": learner(batch_size=None)}
"""Learners that need a visit to each key."""

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


class Counted(ValuesInMemory):
    """Counts what is read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.wholes_read = 0
        self.wholes_written = 0
        self.changes_read = 0

    def whole(self) -> bytes | None:
        self.wholes_read += 1
        return super().whole()

    def changes(self, place: int) -> bytes | None:
        self.changes_read += 1
        return super().changes(place)

    def put(self, head: bytes, whole: bytes | None, changes: bytes | None, place: int) -> None:
        self.wholes_written += whole is not None
        super().put(head, whole, changes, place)


class Broken(ValuesInMemory):
    """Fails when it is to be written."""

    def put(self, head: bytes, whole: bytes | None, changes: bytes | None, place: int) -> None:
        raise OSError("the store is not there")


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(LEARNERS | VISITED)),
    st.fixed_dictionaries(
        {
            **CASES,
            "epochs": st.integers(1, 25),
            "room": st.sampled_from([2**27, 0]),
            "buckets": st.integers(1, 3),
            "workers": st.integers(1, 3),
            "span": st.sampled_from([1, 3, SPAN]),
            "failures": st.sampled_from([0.0, 0.2]),
        }
    ),
)
def test_buckets_give_what_visits_to_each_key_give(name: str, case: dict[str, Any]) -> None:
    given_learner = (LEARNERS | VISITED)[name]
    types = TYPES[kind_of(case, given_learner)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_store, "SPAN", case["span"])
        if not case["room"]:
            patch.setattr(key_cache, "LEAST_OPEN", 2)
        compare(given_learner, types, case)


def compare(given_learner: KeyedLearner, types: tuple[str, str], case: dict[str, Any]) -> None:
    """Serve buckets with several servers, some of which end or fail, and visit each key beside."""
    rng, number = np.random.default_rng(case["seed"]), case["buckets"]
    alone, expected = replace(given_learner), dict[Any, bytes]()
    kept = [ValuesInMemory() for _ in range(number)]

    def new_server() -> BucketServer:
        return BucketServer(given_learner, number, case["room"])

    workers = [new_server() for _ in range(case["workers"])]
    for epoch, own in enumerate(epochs_of(case, given_learner)):
        if epoch % 7 == 6:
            given_learner, alone = (replace(given_learner, readmit=dict.fromkeys(range(6), 10**9)) for _ in "12")
            workers = [new_server() for _ in workers]
        visits = {key: alone.visit(key, expected.get(key), rows) for key, rows in own.items()}
        expected |= {key: visit.state for key, visit in visits.items()}
        for name, values in enumerate(kept):
            mine = {key: rows for key, rows in own.items() if key % number == name}
            worker = int(rng.integers(len(workers)))
            if rng.random() < case["failures"]:  # an attempt that is broken off, or whose result is lost
                attempt = Broken if rng.random() < 0.5 else ValuesInMemory
                lost = copy.deepcopy(values)
                lost.__class__ = attempt
                with contextlib.suppress(OSError):
                    workers[worker].serve(name, lost, RowsByKey.of(mine))
                if rng.random() < 0.5:
                    worker = int(rng.integers(len(workers)))
            if rng.random() < 0.1:
                workers[worker] = new_server()
            served = workers[worker].serve(name, values, RowsByKey.of(mine))
            by_visits = Results({key: visits[key] for key in mine})
            for table, other in by_visits.tables(*types).items():
                assert served.results.tables(*types)[table].equals(other), (epoch, name, table)
            if rng.random() < 0.2:
                expire(workers[int(rng.integers(len(workers)))], alone, name, values, expected, number)
    for name, values in enumerate(kept):
        for last in (*workers, new_server()):
            found = {key: state for key, _, state in last.entries(name, values)}
            assert found == {key: state for key, state in expected.items() if key % number == name}


def expire(
    worker: BucketServer,
    alone: KeyedLearner,
    name: int,
    values: ValuesInMemory,
    expected: dict[Any, bytes],
    number: int,
) -> None:
    """Let the keys of a bucket expire that have been silent for longer than half of them."""
    highs = {key: alone.summary(state).high_water or 0 for key, state in expected.items() if key % number == name}
    before = int(np.median([*highs.values(), 0]))
    served = worker.expire(name, values, before, lambda: None)
    gone = {key for key, high in highs.items() if high < before}
    assert set(served.results.visits) == gone
    assert all(visit.summary.expired and not visit.state for visit in served.results.visits.values())
    for key in gone:
        del expected[key]
    assert served.oldest == min((high for key, high in highs.items() if key not in gone), default=None)


def epochs(n: int, **named: KeyRows) -> Iterator[RowsByKey]:
    """Yield a few rows of each key at a time."""
    for start in range(0, 10 * n, 10):
        yield RowsByKey.of({key: part(own, start, start + 10) for key, own in named.items()})


def test_a_server_reads_only_the_changes_that_it_has_missed() -> None:
    values, given_learner = Counted(), learner()
    one, other = BucketServer(given_learner, 1), BucketServer(given_learner, 1)
    named = {name: rows(400, seed=seed) for seed, name in enumerate("abcdef")}
    for number, given_rows in enumerate(epochs(40, **named)):
        values.wholes_read = values.changes_read = values.wholes_written = 0
        (one if number % 3 else other).serve(0, values, given_rows)
        if number >= 10 and not values.wholes_written:
            assert values.wholes_read == 0
            assert values.changes_read == {0: 2, 1: 1, 2: 0}[number % 3]
    states = {key: learner().visit(key, None, own).state for key, own in named.items()}
    assert {key: state for key, _, state in one.entries(0, values)} == states


def test_all_keys_are_written_when_the_changes_take_more_bytes_than_they_do() -> None:
    values, serving = Counted(), BucketServer(learner(), 1)
    sizes = list[int]()
    for given_rows in epochs(40, **{name: rows(400, seed=seed) for seed, name in enumerate("abcdef")}):
        serving.serve(0, values, given_rows)
        head = Head.read(values.head() or b"", 1)
        assert head.changed_bytes <= head.whole_bytes
        sizes.append(head.whole_bytes)
    assert 2 < values.wholes_written < 20
    assert len(set(sizes)) == values.wholes_written


def test_late_labels_are_kept_as_the_bytes_of_visits() -> None:
    given_learner, values = learner(delay=40.0), ValuesInMemory()
    own, state = late_rows(), None
    for start in range(0, 200, 20):
        some = part(own, start, start + 20)
        visit = given_learner.visit("k", state, some)
        state = visit.state
        served = BucketServer(given_learner, 1).serve(0, values, RowsByKey.of({"k": some}))
        assert served.results.visits["k"].predicted == visit.predicted
    assert [*BucketServer(given_learner, 1).entries(0, values)] == [("k", int(own.sequence[-1]), state)]


def test_a_poisoned_key_is_quarantined_alone() -> None:
    values, serving = ValuesInMemory(), BucketServer(learner(), 1)
    for number, given_rows in enumerate(epochs(4, **{name: rows(40, seed=seed) for seed, name in enumerate("abc")})):
        if number == 2:
            given_rows.X[given_rows.order[given_rows.starts[1]], 0] = np.inf
        results = serving.serve(0, values, given_rows).results
    assert set(results.visits) == {"b"}
    summaries = {key: learner().summary(state) for key, _, state in serving.entries(0, values)}
    assert [key for key, summary in summaries.items() if summary.quarantine] == ["b"]
    assert summaries["b"].refused == 20


def test_a_bucket_begins_with_the_keys_that_it_is_given_once() -> None:
    given_learner, values = learner(), ValuesInMemory()
    first = ValuesInMemory()
    BucketServer(given_learner, 1).serve(0, first, RowsByKey.of({"a": rows(20)}))
    for _ in range(2):
        BucketServer(given_learner, 1).serve(0, values, first=first.whole)
    assert values.head() is not None
    assert [*BucketServer(given_learner, 1).entries(0, values)] == [*BucketServer(given_learner, 1).entries(0, first)]
    empty = ValuesInMemory()
    BucketServer(given_learner, 1).serve(0, empty)
    assert empty.head() is None


def test_damaged_values_are_refused() -> None:
    values = ValuesInMemory()
    serving = BucketServer(learner(), 3)
    for given_rows in epochs(8, a=rows(80), b=rows(80, seed=1)):
        serving.serve(0, values, given_rows)
    head = values.head() or b""
    assert Head.read(head, 3).version > Head.read(head, 3).base
    place = Head.read(head, 3).version % SPAN
    changes = values.changes(place) or b""
    for place_in_head in range(len(head)):
        damaged = bytearray(head)
        damaged[place_in_head] ^= 1
        with pytest.raises(StateError):
            Head.read(bytes(damaged), 3)
    with pytest.raises(StateError, match=r"3 buckets.*4"):
        Head.read(head, 4)
    with pytest.raises(StateError, match="missing"):
        BucketLog(ValuesInMemory(head, None, {}), 3).highs()
    with pytest.raises(StateError, match="do not belong"):
        BucketLog(ValuesInMemory(head, values.whole(), {place: changes[:-1]}), 3).highs()
    impossible = Head(3, version=1, base=2).to_bytes()
    with pytest.raises(StateError, match="cannot be used"):
        Head.read(impossible, 3)


def test_a_process_has_one_server_for_the_same_options() -> None:
    given_learner = learner()
    first = server_for(given_learner, 3)
    assert server_for(learner(), 3) is first
    for other, number in ((learner(), 4), (learner(seed=4), 3), (learner(readmit={"a": 7}), 3)):
        assert server_for(other, number) is not first
        first = server_for(given_learner, 3)
