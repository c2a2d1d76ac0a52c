"""The paper as data: sums of the printed numbers, bold cells, and claims checked against the numbers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from driftsurf.data import catalogue
from driftsurf.errors import OptionError
from driftsurf.reproduction.claims import CLAIMS, Claim
from driftsurf.reproduction.published import (
    ALGORITHMS,
    COMPACT,
    STREAMS,
    TABLES,
    TRIALS,
    PublishedStream,
    PublishedTable,
    best,
    published,
    settings_of,
)

IN_ORDER = [
    *("sea0", "sea10", "sea20", "sea30", "sea-gradual", "hyper-slow", "hyper-fast", "sine1", "mixed", "circles"),
    *("rcv1", "covertype", "airline", "electricity", "powersupply"),
]

COLUMN_SUMS = {
    "equal-model": {
        "aware": 3513,
        "driftsurf": 3389,
        "mddm-g": 3585,
        "mddm-a": 3534,
        "mddm-e": 3568,
        "aue": 3477,
        "1pass-sgd": 3830,
        "oblivious": 4703,
    },
    "rho-4m": {"aware": 3417, "driftsurf": 3388, "mddm-g": 3363, "aue": 4122, "aue-2": 4332, "candor": 3806},
    "rho-2m": {"aware": 3504, "driftsurf": 3565, "mddm-g": 3564, "aue": 4527, "aue-2": 4731, "candor": 4076},
    "greedy": {"driftsurf": 3377, "no-greedy": 3556},
    "sgd": {"aware": 3888, "driftsurf": 3730, "mddm-g": 3892, "aue": 3707},
    "sgd-rho-2m": {"aware": 3838, "driftsurf": 3931, "mddm-g": 3868, "aue": 4530},
}
"""In thousandths, and in the order of the printed columns."""

ROW_SUMS = {
    "equal-model": [825, 1398, 2138, 2776, 1386, 1004, 1490, 1811, 1881, 3135, 1554, 2369, 2744, 2594, 2494],
    "rho-4m": [891, 1229, 1643, 2048, 1201, 803, 1089, 1103, 1230, 2211, 1396, 1746, 2082, 1897, 1859],
    "rho-2m": [951, 1291, 1705, 2129, 1255, 828, 1209, 1300, 1244, 2312, 1696, 1815, 2154, 2039, 2039],
    "greedy": [170, 318, 490, 671, 320, 233, 348, 411, 436, 747, 399, 539, 666, 581, 604],
    "sgd": [540, 792, 1098, 1428, 793, 584, 854, 888, 851, 1485, 691, 1161, 1423, 1296, 1333],
    "sgd-rho-2m": [604, 846, 1149, 1450, 821, 628, 939, 1048, 874, 1482, 948, 1200, 1449, 1403, 1326],
}
"""In thousandths, in the order of the streams."""

COMPACT_BOLD = {
    "driftsurf": {"sea0", "sea20", "sea-gradual", "mixed", "circles", "covertype", "airline"},
    "mddm-g": {"sea0", "hyper-fast", "sine1", "mixed", "rcv1"},
    "aue": {"hyper-slow", "electricity", "powersupply"},
}
"""The cells that the main text prints bold."""

BOLD_AGAINST_THE_RULE = {("equal-model", "sea0")}
"""Printed bold are DriftSurf's and MDDM-G's 0.088, though MDDM-E has 0.087."""

each_stream = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
each_claim = pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)


def test_fifteen_streams_in_the_papers_order() -> None:
    assert list(STREAMS) == IN_ORDER
    assert [stream.name for stream in STREAMS.values()] == IN_ORDER
    assert TRIALS == 5


@each_stream
def test_titles_are_the_names_apart_from_capitals(stream: PublishedStream) -> None:
    assert stream.title.lower() == stream.name


@each_stream
def test_batches_are_as_printed_or_the_departure_is_noted(stream: PublishedStream) -> None:
    noted = {departure.printed: departure.ours for departure in stream.departures if departure.what == "batch size"}
    assert noted.get(str(stream.printed_batch_size), str(stream.printed_batch_size)) == str(stream.batch_size)
    assert stream.n_steps == (34 if stream.name == "electricity" else 100)


@each_stream
def test_departures_give_the_value_in_use(stream: PublishedStream) -> None:
    in_use = {
        "rows": stream.n_rows,
        "features": stream.n_features,
        "step size": stream.step_size,
        "batch size": stream.batch_size,
    }
    for departure in stream.departures:
        assert departure.why
        assert departure.printed != departure.ours
        assert departure.ours == str(in_use.get(departure.what, departure.ours))


def test_powersupply_departs_from_the_printed_step_size() -> None:
    stream = STREAMS["powersupply"]
    assert (stream.printed_step_size, stream.step_size) == (0.1, 2e-2)
    assert [(departure.what, departure.printed) for departure in stream.departures] == [("step size", "0.1")]


@each_stream
def test_a_stream_is_generated_or_needs_a_file(stream: PublishedStream) -> None:
    if stream.file_based:
        assert stream.name in ("rcv1", "covertype", "airline", "electricity", "powersupply")
        return
    made = catalogue.CATALOGUE[stream.name].make()
    assert (made.n_rows, made.n_features) == (stream.n_rows, stream.n_features)
    bounded = [drift for drift in made.drifts if drift.end < made.n_rows]
    steps = {row // stream.batch_size for drift in bounded for row in (drift.start, drift.end)}
    assert tuple(sorted(steps)) == stream.aware_steps
    assert any(drift.gradual for drift in made.drifts) == (stream.drift_type == "gradual")


@each_stream
def test_aware_resets_in_order_and_within_the_stream(stream: PublishedStream) -> None:
    assert list(stream.aware_steps) == sorted(set(stream.aware_steps))
    assert all(0 < step < stream.n_steps for step in stream.aware_steps)
    assert bool(stream.aware_steps) != stream.name.startswith("hyper")
    assert stream.drift_type in ("abrupt", "gradual") or stream.name in ("airline", "electricity", "powersupply")


def test_aware_resets_on_real_streams_where_the_paper_marks_drifts() -> None:
    steps = {name: STREAMS[name].aware_steps for name in IN_ORDER[10:]}
    assert steps == {
        "rcv1": (30, 60),
        "covertype": (30, 60),
        "airline": (31, 67),
        "electricity": (20,),
        "powersupply": (17, 47, 76),
    }


def test_tables_have_their_names_and_settings() -> None:
    settings = {name: (table.update, table.budget, table.steps_per_row) for name, table in TABLES.items()}
    assert settings == {
        "equal-model": ("strsaga", "each", 2),
        "rho-4m": ("strsaga", "divided", 4),
        "rho-2m": ("strsaga", "divided", 2),
        "greedy": ("strsaga", "each", 2),
        "sgd": ("sgd", "each", 2),
        "sgd-rho-2m": ("sgd", "divided", 2),
    }


@each_table
def test_every_row_has_every_column(table: PublishedTable) -> None:
    assert list(table.errors) == IN_ORDER
    assert set(table.algorithms) <= set(ALGORITHMS)
    for row in table.errors.values():
        assert tuple(row) == table.algorithms
        assert all(0 < error < 1 and error == round(error, 3) for error in row.values())


@each_table
def test_columns_and_rows_add_up(table: PublishedTable) -> None:
    thousandths = {stream: {a: round(1000 * error) for a, error in row.items()} for stream, row in table.errors.items()}
    columns = {a: sum(row[a] for row in thousandths.values()) for a in table.algorithms}
    assert columns == COLUMN_SUMS[table.name]
    assert list(columns) == list(COLUMN_SUMS[table.name])
    assert [sum(row.values()) for row in thousandths.values()] == ROW_SUMS[table.name]


def test_the_tables_have_450_cells_and_every_algorithm_is_in_one() -> None:
    assert sum(len(row) for table in TABLES.values() for row in table.errors.values()) == 450
    assert {algorithm for table in TABLES.values() for algorithm in table.algorithms} == set(ALGORITHMS)


@each_table
def test_the_rule_for_bold_gives_the_printed_bold_cells(table: PublishedTable) -> None:
    if table.name == "greedy":
        assert not table.bold
        return
    for stream, row in table.errors.items():
        printed = {algorithm for algorithm in row if (stream, algorithm) in table.bold}
        assert printed
        assert (best(row) == printed) == ((table.name, stream) not in BOLD_AGAINST_THE_RULE)


def test_the_compact_table_is_part_of_the_first_one() -> None:
    assert COMPACT.table == "equal-model"
    assert list(COMPACT.streams) == [name for name in IN_ORDER if name not in ("sea10", "sea30")]
    for stream in COMPACT.streams:
        row = {algorithm: TABLES[COMPACT.table].errors[stream][algorithm] for algorithm in COMPACT.algorithms}
        assert best(row) == {algorithm for algorithm, streams in COMPACT_BOLD.items() if stream in streams}


def test_no_algorithm_is_best_in_a_row_of_aware_alone() -> None:
    assert best({"aware": 0.1}) == frozenset()


def test_published_gives_the_cell_or_none_or_an_error() -> None:
    assert published("sgd-rho-2m", "circles", "aware") == 0.306
    assert published("rho-2m", "sea-gradual", "aue") == 0.24
    assert published("sgd", "circles", "candor") is None
    with pytest.raises(OptionError, match="'compact'"):
        published("compact", "circles", "aware")
    with pytest.raises(OptionError, match=r"'SEA0'.*'sea0'"):
        published("sgd", "SEA0", "aware")
    with pytest.raises(OptionError, match="'mddm'"):
        published("sgd", "sea0", "mddm")


@each_claim
def test_a_claim_fails_on_the_printed_numbers_only_where_noted(claim: Claim) -> None:
    assert claim.failures(published) == claim.printed_failures
    assert claim.holds(published) == (None if claim.rule is None else not claim.printed_failures)


@each_claim
def test_a_claim_has_its_text_source_and_criterion(claim: Claim) -> None:
    assert CLAIMS[claim.id] is claim
    assert claim.text.endswith(".")
    assert claim.source
    assert claim.criterion


def test_claims_without_a_rule_are_about_curves_and_other_runs() -> None:
    assert [claim.id for claim in CLAIMS.values() if claim.rule is None] == [
        "recovers-in-one-reactive-state",
        "adapts-faster-than-aue",
        "recovers-faster-when-divided",
        "old-model-first-on-airline",
        "aware-with-a-late-switch",
        "detectors-on-covertype",
    ]


@each_claim
def test_a_claim_without_numbers_is_not_decided(claim: Claim) -> None:
    assert claim.holds(lambda table, stream, algorithm: None) is None


@each_claim
def test_a_claim_is_judged_on_the_streams_with_numbers(claim: Claim) -> None:
    def without_rcv1(table: str, stream: str, algorithm: str) -> float | None:
        return None if stream == "rcv1" else published(table, stream, algorithm)

    if claim.rule is None or claim.id in ("baselines-fail-on-rcv1", "aue-ahead-under-sgd"):
        return
    assert claim.holds(without_rcv1) == claim.holds(published)


@each_claim
def test_a_claim_can_fail(claim: Claim) -> None:
    """Reverse and enlarge all differences; claims that fail on the printed numbers need no other proof."""

    def reverse(table: str, stream: str, algorithm: str) -> float | None:
        error = published(table, stream, algorithm)
        return None if error is None else round(2 - 3 * error, 3)

    if claim.rule is not None and not claim.printed_failures:
        assert claim.holds(reverse) is False


def test_reading_the_tables_loads_no_heavy_package() -> None:
    program = "import sys, driftsurf.reproduction.claims; print(sorted({'numpy', 'sklearn'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_streams_are_registered_with_the_settings_of_the_paper() -> None:
    """``driftsurf run`` takes them from the catalogue, which cannot import this package."""
    assert set(STREAMS) <= set(catalogue.CATALOGUE.for_experiments)
    for name in catalogue.CATALOGUE.for_experiments:
        settings = settings_of(name)
        assert catalogue.get(name).paper_settings == (settings.step_size, settings.l2), name
    others = set(catalogue.CATALOGUE) - set(catalogue.CATALOGUE.for_experiments)
    assert [name for name in others if catalogue.get(name).paper_settings is not None] == []
