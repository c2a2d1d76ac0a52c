"""The registry of parts: names, defaults, duplicates, missing packages, and entry points of other packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from driftsurf import registry
from driftsurf.errors import MissingExtraError, OptionError, RegistryWarning
from driftsurf.strategies import SlidingWindow


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget after each test what it registered."""
    for kind in ("strategy", "learner", "detector"):  # a module registers its parts only once, when it is imported
        registry.entries(kind)
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr(registry, "_imported", set(registry._imported))


class NewestRows(SlidingWindow):
    """Keep the newest rows.

    Nothing else.
    """


def test_an_entry_has_the_title_and_summary_of_its_class() -> None:
    registry.register("strategy", "newest-rows", tasks=registry.ALL_TASKS)(NewestRows)
    entry = registry.get("strategy", "newest-rows")
    assert (entry.title, entry.summary, entry.examples) == (
        "NewestRows",
        "Keep the newest rows.",
        (registry.Example(),),
    )
    assert registry.find("strategy", NewestRows) is entry
    assert "newest-rows" in registry.names("strategy")


def test_a_name_can_be_registered_again_by_the_same_class_only() -> None:
    registry.register("strategy", "newest-rows")(NewestRows)
    registry.register("strategy", "newest-rows")(NewestRows)
    with pytest.raises(OptionError, match="'newest-rows'"):
        registry.register("strategy", "newest-rows")(SlidingWindow)


def test_a_task_may_replace_a_part_or_set_its_options() -> None:
    assert registry.get("learner", "logistic").for_task("multiclass").name == "softmax"
    assert registry.get("learner", "logistic").for_task("binary").name == "logistic"
    assert registry.get("learner", "lightgbm").for_task("regression").options == {"task": "regression"}
    with pytest.raises(OptionError, match="'clustering'"):
        registry.default("learner", "clustering")


def test_a_missing_package_is_named_with_its_remedy() -> None:
    registry.register("strategy", "newest-rows", requires=["nowhere_at_all"], install="pip install it")(NewestRows)
    entry = registry.get("strategy", "newest-rows")
    assert not entry.installed
    with pytest.raises(MissingExtraError, match=r"nowhere_at_all.*pip install it"):
        entry.make(None)


@pytest.mark.parametrize("value", ["nowhere_at_all:Part", "driftsurf.strategies:SlidingWindow"])
def test_a_bad_entry_point_is_a_warning_unless_its_part_is_asked_for(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("newest-rows", value, "driftsurf.strategies")
    monkeypatch.setattr(registry, "_entry_points", lambda group: (point,) if group == point.group else ())
    with pytest.raises(OptionError, match="newest-rows"):
        registry.get("strategy", "newest-rows")
    with pytest.warns(RegistryWarning, match="newest-rows"):
        assert "newest-rows" not in registry.names("strategy")
    registry.names("strategy")  # warns once
