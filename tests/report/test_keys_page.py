"""The page of a keyed run and its map."""

from __future__ import annotations

import re
from typing import Any

from driftsurf.keyed.outcomes import KeyScore
from driftsurf.report import keys as report
from driftsurf.report.key_page import KeyMap, KeyStep


def entry(**more: Any) -> dict[str, Any]:
    return {
        **dict.fromkeys(("rows", "scored", "errors", "duplicates", "refused", "transitions", "bytes", "gaps"), 10),
        "steps": 1,
        "deviation": 0.0,
        "state": "stable",
        "quarantine": "",
        "expired": False,
        "error": 0.5,
        "high_water": 100,
        "last_transition": "",
        "last_transition_at": None,
        **more,
    }


def test_many_keys_share_lines_of_the_map() -> None:
    keys = {k: entry() for k in range(500)}
    changes = [KeyStep(k, 50, "switched") for k in range(0, 500, 2)] + [KeyStep(1, 90, "entered,greedy")]
    page = report.render(report.KeyedRecord("many", keys, [*changes, KeyStep(2, 95, "greedy")]))
    assert page.count('class="changed"') == 2 * 30 + 1  # for a screen and for a phone, and one in the legend
    assert page.count('class="entered"') == 2 * 1 + 1
    assert "+8" in page or "+7" in page


def test_a_map_without_changes_is_drawn_and_names_are_escaped() -> None:
    keys = {"<b>": entry(error=None, scored=0, high_water=None), "c": entry(expired=True, scored=0)}
    page = report.render(report.KeyedRecord("<x>", keys))
    assert "<b>" not in page.replace("<b>2</b>", "").replace("<b>", "", page.count("</b>"))
    assert "expired" in page
    late = KeyMap({1: entry(high_water=10**6)}, [KeyStep(1, 10**6 - 5, "switched")]).render()
    assert "999,995" in late


def test_the_table_shows_reason_row_and_value_of_a_quarantine() -> None:
    fault = {"quarantine": "not_finite", "quarantined_at": 64, "quarantine_column": "price", "quarantine_value": "inf"}
    label = fault | {"quarantine": "bad_label", "quarantine_column": "", "quarantine_value": "<9>"}
    size = fault | {"quarantine": "too_large", "quarantine_column": "", "quarantine_value": ""}
    page = report.render(report.KeyedRecord("x", {1: entry(**fault), 2: entry(**label), 3: entry(**size)}))
    for text in ("not_finite at 64: price = inf<", "bad_label at 64: &lt;9&gt;<", "too_large at 64<"):
        assert text in page


def test_keys_are_listed_by_need_and_the_first_ones_are_linked() -> None:
    keys = {"good": entry(error=0.1), "poor": entry(error=0.3), "bad": entry(error=0.4), "new": entry(error=0.9)}
    scores = {
        "good": KeyScore(100, 90, 0.1, 0.5, 0.5),
        "poor": KeyScore(100, 90, 0.3, 0.2, 0.5),
        "bad": KeyScore(100, 90, 0.4, 0.45, 0.4),
        "new": KeyScore(10, 0, 0.9, 0.9, 0.5),
    }
    page = report.render(report.KeyedRecord("x", keys, scores=scores), paged=["poor"])
    rows = re.findall(r"<tr><td>(.*?)</td>", page)
    assert [re.sub("<.*?>", "", row) for row in rows] == ["poor", "bad", "new", "good"]
    assert ["href" in row for row in rows] == [True, False, False, False]
    assert re.search(r'class="warning".* 2 of 4 keys .*poor, bad\.<', page)
    assert "0.468" in page  # persistence over all keys, weighted by rows
    assert "warning" not in re.sub("(?s)<style>.*</style>", "", report.render(report.KeyedRecord("x", keys)))
