"""What users see of transitions and experts: tables with ``to_frame()`` and, in notebooks, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

from driftsurf.core.decisions import Decision, Transition, plain_expert
from driftsurf.core.frames import html_table, new_frame
from driftsurf.core.wording import percent, significant

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Expert", "Experts", "Transitions"]


class Transitions(list[Transition]):
    """Changes of state or of the predicting model, in order.

    Examples
    --------
    >>> from driftsurf.core.decisions import Transition
    >>> found = Transitions([Transition("reset", step=12, old=0, new=1, why="60% of the batch were wrong")])
    >>> found[0].kind, found.to_frame()["what"][0]
    ('reset', 'started a fresh model')
    """

    __slots__ = ()

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each transition (extra ``pandas``)."""
        return new_frame(
            {
                "step": [one.step for one in self],
                "kind": [one.kind for one in self],
                "what": [one.phrase for one in self],
                "reason": [one.reason for one in self],
                "expert": [plain_expert(one.expert) for one in self],
                "old": [one.old for one in self],
                "new": [one.new for one in self],
            },
            "to_frame()",
        )


@dataclass(frozen=True, slots=True)
class Expert:
    """One of several models that vote, as it is after a time step.

    Examples
    --------
    >>> import driftsurf
    >>> from driftsurf.streams import Mixed
    >>> model = driftsurf.recommended("light", random_state=0)
    >>> for X, y in Mixed(n_rows=1_000).batches(100):
    ...     model = model.partial_fit(X, y)
    >>> isinstance(model.experts_[0], Expert), round(sum(one.share for one in model.experts_), 6)
    (True, 1.0)
    """

    name: str
    share: float
    """Its share of the weights of the vote on the next batch; the shares of all experts add up to 1."""
    loss: float | None
    """Its loss on the last batch, before it learned that; None if it made no prediction."""
    first_row: int
    """The first row that its present model was trained on."""
    reacting: bool
    """Whether it is in a reactive state."""


class Experts(Sequence[Expert]):
    """The experts of a portfolio or an ensemble with their shares, the largest first; empty for a single model.

    Examples
    --------
    >>> from driftsurf.core.decisions import Decision, ModelRecord
    >>> models = [ModelRecord("expert", k, 5, 0, 0.3, weight=share) for k, share in enumerate([0.2, 0.8])]
    >>> experts = Experts.of(Decision(5, 500, 100, "stable", 0, 0, 0, models))
    >>> experts
    <Experts: model 1 80 %, model 0 20 %>
    """

    def __init__(self, experts: Iterable[Expert] = ()) -> None:
        self._experts = tuple(sorted(experts, key=lambda one: -one.share))

    @classmethod
    def of(cls, decision: Decision | None) -> Experts:
        """Return the experts after the step of a decision."""
        if decision is None:
            return cls()
        reacting = [f"{one} > " for one in decision.reacting]
        return cls(
            Expert(
                name=plain_expert(one.name) or f"model {one.id}",
                share=float(one.weight or 0.0),
                loss=one.risk_before,
                first_row=one.first_row,
                reacting=any(name.startswith(f"{one.name} > ") for name in reacting),
            )
            for one in decision.models
            if one.role == "expert"
        )

    def __getitem__(self, index: Any) -> Any:
        return self._experts[index]

    def __len__(self) -> int:
        return len(self._experts)

    def __repr__(self) -> str:
        return f"<Experts: {', '.join(f'{one.name} {percent(one.share)}' for one in self) or 'none'}>"

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each expert (extra ``pandas``)."""
        names = [one.name for one in fields(Expert)]
        columns = zip(*map(astuple, self), strict=True) if len(self) else [() for _ in names]
        return new_frame(dict(zip(names, map(list, columns), strict=True)), "to_frame()")

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        if not len(self):
            return "<p>A single model: there are no experts.</p>"
        return html_table(
            ("expert", "share", "loss on the last batch"),
            [(one.name, percent(one.share), "" if one.loss is None else significant(one.loss, 3)) for one in self],
        )
