"""The page of one key of a keyed run: the page of a run, made from the rows and decisions of this key."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core import files
from driftsurf.core.decisions import Decision
from driftsurf.core.journal import read_lines
from driftsurf.evaluation.scoring import Scorebook
from driftsurf.evaluation.trace import TIME, Trace, TraceBuilder
from driftsurf.keyed.folder import PAGE, KeyedFolder
from driftsurf.keyed.outcomes import KeyOutcomes, Outcomes, format_time
from driftsurf.keyed.rules import NOTHING
from driftsurf.report import html
from driftsurf.report.run_page import render
from driftsurf.session.observation import Origin
from driftsurf.visible import escape

__all__ = ["KEY_PAGES", "key_page_name", "render_key", "trace_key", "write_key_pages"]

KEY_PAGES = "key_pages"
"""The folder of the pages of keys, in the run folder."""
NAME_LENGTH = 40


def key_page_name(key: Any) -> str:
    """Return the file name of the page of a key: readable, and different for every key.

    >>> key_page_name("São Paulo/3")
    'S-o-Paulo-3-5fadbefe.html'
    """
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", str(key)).strip("-.")[:NAME_LENGTH]
    return f"{readable}-{hashlib.blake2b(str(key).encode(), digest_size=4).hexdigest()}.html"


def write_key_pages(folder: KeyedFolder, outcomes: Outcomes, keys: Mapping[Any, Mapping[str, Any]]) -> None:
    """Write the pages of keys, whose entries are given, to the run folder, in place of earlier pages."""
    place = folder.path / KEY_PAGES
    files.make_folder(place)
    journal, rows = _journal(folder, keys), outcomes.of(keys)
    for key, entry in keys.items():
        page = _render(folder, outcomes, key, rows[key], entry, journal[key])
        files.write_text(place / key_page_name(key), page, shared=True)
    for name in set(files.names(place)) - {key_page_name(key) for key in keys}:
        if name.endswith(".html"):
            files.remove(place / name)


def render_key(
    folder: KeyedFolder, outcomes: Outcomes, key: Any, entry: Mapping[str, Any], *, link: bool = True
) -> str:
    """Return the page of one key, whose entry is given; with ``link`` it begins with a link to the page of all keys."""
    rows, journal = outcomes.of([key])[key], _journal(folder, [key])[key]
    return _render(folder, outcomes, key, rows, entry, journal, link=link)


def _render(
    folder: KeyedFolder,
    outcomes: Outcomes,
    key: Any,
    rows: KeyOutcomes,
    entry: Mapping[str, Any],
    journal: Sequence[tuple[int, str]],
    *,
    link: bool = True,
) -> str:
    strategy = folder.about().get("learner", {}).get("strategy", {}).get("name", "model")
    trace, decisions = trace_key(outcomes, rows, journal, model=strategy, stream=f"{key} of {folder.path.name}")
    own = outcomes.drifts.of(key)
    decisions = [
        replace(one, drifts=tuple(drift for drift in own if min(drift.step, len(decisions) - 1) == place))
        for place, one in enumerate(decisions)
    ]
    above = [f'<p class="soft"><a href="../{PAGE}">all keys of {escape(folder.path.name)}</a></p>'] if link else []
    if entry["quarantine"]:
        at = format_time(entry["quarantined_at"], outcomes.dates)
        why = f"The key has been in quarantine since {at} and no longer learns: {entry['quarantine_message']}"
        above.append(html.warning(why))
    return render(trace, decisions, model=strategy, above=above)


def _journal(folder: KeyedFolder, keys: Collection[Any]) -> Mapping[Any, list[tuple[int, str]]]:
    """Return the sequence numbers and records of the time steps of these keys."""
    found: dict[Any, list[tuple[int, str]]] = {key: [] for key in keys}
    for _, part in folder.parts("journal", ("key", "sequence", "record"), keys=keys):
        for key, at, record in zip(*part.to_pydict().values(), strict=True):
            found[key].append((at, record))
    return found


def trace_key(
    outcomes: Outcomes, rows: KeyOutcomes, journal: Sequence[tuple[int, str]], *, model: str, stream: str
) -> tuple[Trace, list[Decision]]:
    """Return what the trace and the decisions of a run over the rows of one key alone would be.

    Log losses are not known: a keyed run stores labels only. A first time step without predictions, since there was
    nothing to predict with, is shown as what an untrained model predicts, and left out of mean errors. Where labels
    come late, every time step has a line, also one without predictions, and the model is that in use when they came.
    """
    decisions = read_lines("".join(record for _, record in journal))
    ends = np.searchsorted(rows.sequence, [at for at, _ in journal], side="right").tolist()
    cuts = sorted({0, len(rows.sequence), *ends})
    at_end = dict[int, list[Decision]]()
    for end, decision in zip(ends, decisions, strict=True):
        at_end.setdefault(end, []).append(decision)
    seen = set() if outcomes.regression else {*rows.true.tolist(), *rows.predicted.tolist()}
    labels = tuple(label for code, label in enumerate(outcomes.labels) if code in seen)
    book = Scorebook(labels)
    builder, warmup, begun = TraceBuilder(labels), 0, list[int]()
    origin, learned = None, 0
    for start, stop in itertools.pairwise(cuts):
        y, predicted = (_values(outcomes, values[start:stop]) for values in (rows.true, rows.predicted))
        known = ~np.isnan(predicted) if outcomes.regression else rows.predicted[start:stop] != NOTHING
        made = at_end.get(stop, [])
        if outcomes.late:
            in_use = (made[0].predicted_by, made[0].trained_from) if made else ()
            origin = Origin(book.step_number + 1, learned, sum(decision.rows for decision in made), *in_use)
            learned += origin.learned
        elif not start and not known.any():
            warmup, known = 1, ~known
            predicted = np.full(len(y), 0.0) if outcomes.regression else np.full(len(y), labels[0])
        if known.any() or origin is not None:
            book.step(y[known], origin)
            builder.add(book.row(model, y[known], predicted[known], None, made, origin))
            begun.append(int(rows.sequence[start]))
    size = outcomes.batch_size or max((decision.rows for decision in decisions), default=1)
    columns = builder.build(stream, size, (), {}).columns
    if outcomes.dates:
        columns[TIME] = np.array(begun, "datetime64[us]").astype("datetime64[s]").astype(np.str_)
    return Trace(stream, size, (), labels, columns, warmup_steps=warmup), decisions


def _values(outcomes: Outcomes, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return labels from their codes; the first one where there is none."""
    return values if outcomes.regression else np.array(outcomes.labels)[np.maximum(values, 0)]
