"""Whether probabilities are right: of the rows with a probability of 0.7, seven of ten should be hits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.evaluation.scores import ProbabilityOf
from driftsurf.report import html
from driftsurf.report.figure import Curve, Figure
from driftsurf.report.sections import RunView, Section
from driftsurf.report.svg import drawing, element

SIZE, LEFT, BOTTOM, GAP = 340, 56, 40, 12
"""Size and margins of the square drawing."""


def build(run: RunView) -> Iterator[str | Figure]:
    """Return the calibration curve and the figure over time; nothing if the run has no probabilities."""
    if run.scores is None:
        return
    positive = run.positive if run.scores.probability_of == "second" else None
    of: ProbabilityOf = "predicted" if positive is None else "second"
    probability, share, rows = run.scores.calibration(of)
    if not len(rows):
        return
    means, shares = run.scores.calibration_over_time(of)
    if positive is not None and run.scores.labels[1] != positive:  # the other class was counted
        probability, share, rows = 1.0 - probability[::-1], 1.0 - share[::-1], rows[::-1]
        means, shares = 1.0 - means, 1.0 - shares
    what = "correct predictions" if positive is None else f"class {positive}"
    whose = "the predicted class" if positive is None else f"class {positive}"
    yield html.note(
        f"Rows are grouped by their probability of {whose}. A point on the diagonal has the right probability; below "
        "it the model is too sure. Larger points have more rows. On average probability and share differ by "
        f"{run.scores.calibration_error(of):.3f} (the expected calibration error)."
    )
    yield _curve(probability, share, rows.astype(np.float64), what)
    yield html.note(f"Mean probability of {whose} and share of {what} at each step.")
    series = [
        Curve(f"share of {what}", "oracle", shares.tolist()),
        Curve("mean probability", "curve", means.tolist()),
    ]
    highest = float(np.nanmax(np.concatenate([means, shares])))
    yield Figure("calibration", f"calibration of {run.model} over time", "share", min(1.05, 1.2 * highest), series)


def _curve(probability: FloatArray, share: FloatArray, rows: FloatArray, what: str) -> str:
    """Return the calibration curve over the whole run as a square drawing."""

    def x(value: float) -> float:
        return LEFT + (SIZE - LEFT - GAP) * value

    def y(value: float) -> float:
        return SIZE - BOTTOM - (SIZE - BOTTOM - GAP) * value

    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(element("line", class_="grid", x1=x(0), x2=x(1), y1=y(tick), y2=y(tick)))
        parts.append(element("text", f"{tick:g}", class_="tick", x=LEFT - 8, y=y(tick) + 4, text_anchor="end"))
        parts.append(element("text", f"{tick:g}", class_="tick", x=x(tick), y=y(0) + 16, text_anchor="middle"))
    parts.append(element("line", class_="oracle", x1=x(0), y1=y(0), x2=x(1), y2=y(1)))
    places = list(zip(probability.tolist(), share.tolist(), strict=True))
    path = "M" + " L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in places)
    parts.append(element("path", class_="curve", d=path))
    for (a, b), count in zip(places, rows.tolist(), strict=True):
        text = f"probability {a:.3f}, share {b:.3f}, {count:,.0f} rows"
        radius = 2.5 + 4.0 * float(np.sqrt(count / rows.max()))
        parts.append(element("circle", title=text, class_="dot", cx=x(a), cy=y(b), r=radius))
    middle, turned = (x(0) + x(1)) / 2, f"translate(12 {(y(0) + y(1)) / 2:g}) rotate(-90)"
    parts.append(element("text", "probability", class_="name", x=middle, y=SIZE - 6, text_anchor="middle"))
    parts.append(element("text", f"share of {what}", class_="name", transform=turned, text_anchor="middle"))
    drawn = drawing(SIZE, SIZE, f"calibration curve: share of {what} by probability", parts)
    return f'<div class="square">{drawn}</div>'


SECTION = Section("Calibration", 44, build)
