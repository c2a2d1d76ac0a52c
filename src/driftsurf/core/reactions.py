"""Reactions to drift, counted and described; those of the experts of a portfolio are put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.expert_names import plain_expert
from driftsurf.visible import visible

__all__ = [
    "ReactionCounts",
    "alike",
    "count_reactions",
    "describe_alike",
    "merge_reactions",
    "merged_kinds",
    "phrase_of",
]


def alike(transitions: Iterable[Transition]) -> list[list[Transition]]:
    """Group the transitions of one step by what was done: several experts of a portfolio may do the same."""
    groups = dict[str, list[Transition]]()
    for number, one in enumerate(transitions):
        groups.setdefault(one.phrase if one.expert else str(number), []).append(one)
    return list(groups.values())


def describe_alike(group: Sequence[Transition]) -> str:
    """Describe in one line what one or several experts did at a step.

    >>> two = [Transition("entered", 25, 1, left=0.6, right=0.4, margin=0.1, expert=name) for name in ("a", "b")]
    >>> describe_alike(two)
    'step 25: 2 experts began to test a new model: a (risk 0.60 > best 0.40 + 0.10), b (risk 0.60 > best 0.40 + 0.10)'
    """
    first = group[0]
    if len(group) == 1:
        return first.describe()
    done = phrase_of(group)
    return visible(
        f"step {first.step}: {done}: {', '.join(f'{plain_expert(one.expert)} ({one.reason})' for one in group)}"
    )


def phrase_of(group: Sequence[Transition]) -> str:
    """Return what one or several experts did, such as "2 experts began to test a new model"."""
    first = group[0]
    if len(group) == 1:
        return f"{first.phrase} ({plain_expert(first.expert)})" if first.expert else first.phrase
    done = f"predict with the {'new' if first.new > first.old else 'old'} model"
    return f"{len(group)} experts {done if first.kind == 'greedy' else first.phrase}"


def merge_reactions(steps: Iterable[tuple[str, Iterable[str]]]) -> Iterator[list[str]]:
    """Yield the kinds of the transitions of each step, given its state, as those of one model.

    The experts of a portfolio answer the same drift, together or one after the other: one reaction lasts as long as any
    of them is reactive, and a new model takes over in it, or is rejected, at most once.

    >>> both = ("reactive", ["entered", "entered"]), ("reactive", ["switched"]), ("reactive", ["switched"])
    >>> list(merge_reactions(both))
    [['entered'], ['switched'], []]
    """
    reactive, known = 0, set[str]()
    for state, kinds in steps:
        merged = list[str]()
        for kind in kinds:
            if kind == "entered":
                merged += [kind] * (reactive == 0)
                known = known if reactive else set()
                reactive += 1
            elif kind in ("switched", "kept"):
                merged += [kind] * (kind not in known or not reactive)
                known.add(kind)
                reactive = max(0, reactive - 1)
            else:
                merged.append(kind)
        if state == "stable":  # also after a reset, which ends a reactive state without a winner
            reactive = 0
        yield merged


def merged_kinds(decisions: Iterable[Decision]) -> Iterator[str]:
    """Yield the kinds of all transitions of decisions, as :func:`merge_reactions` counts them."""
    steps = ((made.state, [one.kind for one in made.transitions]) for made in decisions)
    for kinds in merge_reactions(steps):
        yield from kinds


class ReactionCounts(NamedTuple):
    """How often a model reacted to drift, counted the same way in tables, pages and lists of runs."""

    reactions: int
    """Reactive states that it entered; of a portfolio, those of experts that overlap are one."""
    switches: int
    """Models that took over from another one after they had proved better."""
    fresh_starts: int
    """Fresh models that replaced another one at once, on the signal of a detector or on an order."""

    @property
    def new_models(self) -> int:
        """How often a new model took over."""
        return self.switches + self.fresh_starts


def count_reactions(kinds: Iterable[str]) -> ReactionCounts:
    """Count the reactions among transitions, given by their kinds.

    >>> count_reactions(["entered", "greedy", "switched", "reset", "replaced"])
    ReactionCounts(reactions=1, switches=2, fresh_starts=1)
    """
    found = Counter(kinds)
    return ReactionCounts(found["entered"], found["switched"] + found["replaced"], found["reset"])
