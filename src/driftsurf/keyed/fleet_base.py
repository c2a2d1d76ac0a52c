"""Base of a fleet: its options, what serves its keys, saving and loading. Learning is in ``fleet.py``."""

from __future__ import annotations

import inspect
import json
from typing import Any, NamedTuple, Self

import numpy as np

from driftsurf.core.changes import Changeable, locked
from driftsurf.core.contracts import State
from driftsurf.core.fields import misfit
from driftsurf.core.input import Schema
from driftsurf.core.options import choice, whole
from driftsurf.core.state import from_bytes, nest, pick, to_bytes
from driftsurf.core.targets import ClassTargets
from driftsurf.core.typing import Classes, LearnerLike
from driftsurf.errors import OptionError, StateError
from driftsurf.keyed.cell_store import CellStore, bytes_of_key, suits_cells
from driftsurf.keyed.growing_store import GrowingStore
from driftsurf.keyed.key_store import KeyStore
from driftsurf.keyed.keys import Keys
from driftsurf.keyed.session_store import SessionStore
from driftsurf.keyed.template import BATCH_SIZE, FleetModel, template_from, template_of, template_settings
from driftsurf.keyed.threads import Threads, available_processors
from driftsurf.learners import LogisticRegression
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

__all__ = ["OWNER", "BaseFleet", "Serving"]

MOST_THREADS = 1024
MOST_BYTES = 2**30
"""Largest size of a key in compiled loops, which bounds the memory, whatever a saved fleet asks for."""
LARGE = 2**20
"""Size of a key from which on a model takes sessions, whose memory grows with the rows: a key in compiled loops has all
of its memory from its first row on."""
LEARNER_OPTIONS = "step_size", "l2", "steps_per_row", "start"
STRATEGY_OPTIONS = "threshold", "stable_threshold", "reactive_length", "greedy", "max_rows"
COMMON_OPTIONS = "on_bad", "on_gap", "threads", "seed"
"""Options of a fleet with or without a model of its own."""
OWNER = "this fleet"


class Serving(NamedTuple):
    """The backend that predicts and learns for all keys, and the columns of the rows."""

    schema: Schema | None
    """Columns of the rows; None before the first call, if they were not given."""
    backend: KeyStore


class BaseFleet(Changeable):
    """Options of a fleet, which are checked at the first use, and its saved form."""

    model: FleetModel | None
    n_features: int | None
    batch_size: int | None
    classes: Classes | None
    on_bad: str
    on_gap: str
    threads: int | None
    seed: int

    # -------------------------------------------------------------------- preparation

    _ready = False
    _keys: Keys
    _serving: Serving
    _template: Session
    """Session that every key starts with a copy of, apart from its seed."""

    @property
    def _backend(self) -> KeyStore:
        return self._serving.backend

    def _prepare(self) -> None:
        """Check the options and set everything up, at the first use; options that are changed later have no effect."""
        if self._ready:
            return
        n_features = self.n_features
        if n_features is not None:
            n_features = whole("n_features", n_features, at_least=1, otherwise=", or None")
        choice("on_bad", self.on_bad, ("raise", "quarantine"))
        choice("on_gap", self.on_gap, ("refuse", "fill"))
        self._tolerant, self._fills = self.on_bad == "quarantine", self.on_gap == "fill"
        self._seed = (
            whole("seed", self.seed, at_least=0, at_most=None) % 2**64
        )  # random numbers depend on it modulo 2**64 only
        threads = available_processors()
        if self.threads is not None:
            threads = whole("threads", self.threads, at_least=1, at_most=MOST_THREADS, otherwise=", or None")
        self._threads = Threads(threads)
        self._settings = self._options()
        if self.model is None:
            self._template = self._default_model()
        else:
            self._check_no_options_of_a_model()
            self._template = template_of(self.model, self.classes, self.batch_size)
        self._keys = Keys()
        self._serving = self._serve(n_features)
        self._ready = True

    def _serve(self, n_features: int | None) -> Serving:
        """Return what serves rows with this many columns."""
        template, how = self._template, {"tolerant": self._tolerant, "fills": self._fills}
        if n_features is None:
            return Serving(None, SessionStore(template, None, **how))
        schema = Schema(n_features, owner=OWNER)
        if suits_cells(template):
            size = bytes_of_key(template, n_features, fills=self._fills)
            if size <= (MOST_BYTES if self.model is None else LARGE):
                targets = template.targets
                named = not isinstance(targets, ClassTargets) or targets.closed
                kind = CellStore if named else GrowingStore
                return Serving(schema, kind(template, n_features, self._threads, **how))
            if self.model is None:
                raise OptionError(
                    f"a key would take {size:,} bytes, of which at most {MOST_BYTES:,} are possible; lower "
                    "n_features, batch_size, max_rows or reactive_length"
                )
        # Options that do not suit the columns are refused before any key learns.
        template.strategy.fresh(0).begin(n_features, sparse=False, n_classes=template.targets.n_classes)
        return Serving(schema, SessionStore(template, n_features, **how))

    def _options(self) -> dict[str, Any]:
        """Return the parameters as they are now, numpy scalars as Python's numbers."""
        given = {name: vars(self)[name] for name in inspect.signature(type(self)).parameters}
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}

    def _default_model(self) -> Session:
        """Return what a key starts with, if no model is given; this also checks the options."""
        given = self._settings
        batch_size = BATCH_SIZE if given["batch_size"] is None else given["batch_size"]
        given["batch_size"] = whole("batch_size", batch_size, at_least=1, otherwise=", or None")
        whole("max_rows", given["max_rows"], at_least=1)
        learner = LogisticRegression(**{name: given[name] for name in LEARNER_OPTIONS})
        strategy = DriftSurf(learner, **{name: given[name] for name in STRATEGY_OPTIONS}, dtype="float32")
        classes = (0, 1) if given["classes"] is None else given["classes"]
        template = Session(strategy, classes=classes, batch_size=given["batch_size"], guard=None)
        given["classes"] = template.targets.labels
        if len(template.targets.labels) != 2:
            raise OptionError(
                f"classes is {self.classes!r}; a fleet without a model needs exactly two labels. For others, pass a "
                "model, such as Fleet(DriftSurfClassifier(max_rows=128))"
            )
        return template

    def _check_no_options_of_a_model(self) -> None:
        """Raise OptionError if an option is set that belongs into the model."""
        usual = inspect.signature(type(self)).parameters
        for name in (*LEARNER_OPTIONS, *STRATEGY_OPTIONS):
            if self._settings[name] != usual[name].default:
                raise OptionError(f"{name} is {self._settings[name]!r}, but there is a model: set it in the model")

    # -------------------------------------------------------------------- state

    @locked
    def state(self) -> State:
        """Return everything that decides what comes next, keys and options included; the journal is not part of it."""
        self._prepare()
        settings, schema = self._settings, self._serving.schema
        if self.model is not None:
            settings = {name: settings[name] for name in COMMON_OPTIONS} | {"model": template_settings(self._template)}
        settings = {name: value for name, value in settings.items() if value is not None or name != "model"}
        settings["n_features"] = None if schema is None else schema.n_features
        state: State = {"fleet": json.dumps(settings, sort_keys=True)}
        return state | nest("keys", self._keys.state()) | self._backend.state()

    @classmethod
    def from_state(cls, state: State, learner: LearnerLike | None = None) -> Self:
        """Return the fleet that ``state()`` was taken from; ``learner`` as for ``from_bytes``."""
        try:
            options = json.loads(str(state.get("fleet")))
            if "model" in options:
                options["model"] = template_from(options["model"], learner)
            fleet = cls(**options)
            fleet._prepare()
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            if isinstance(error, StateError):
                raise
            raise misfit(state, "fleet", f"is not the options of a fleet ({error})") from error
        fleet._keys = Keys.from_state(pick("keys", state))
        schema = fleet._serving.schema
        if schema is None and len(fleet._keys):
            raise misfit(state, "fleet", "has no number of columns, but there are keys")
        if schema is not None and "weights" not in state:  # saved when compiled loops served fewer models
            own = SessionStore(fleet._template, schema.n_features, tolerant=fleet._tolerant, fills=fleet._fills)
            fleet._serving = Serving(schema, own)
        fleet._backend.restore(state, fleet._keys.seeds(fleet._seed, 0))
        return fleet

    @locked
    def to_bytes(self, *, trust_pickle: bool = False) -> bytes:
        """Save the whole fleet exactly: ``from_bytes`` continues as if there had been no break.

        A learner of another library that only pickle can save is refused unless ``trust_pickle`` is true.
        """
        return to_bytes(self.state(), trust_pickle=trust_pickle)

    @classmethod
    def from_bytes(cls, data: bytes, learner: LearnerLike | None = None, *, trust_pickle: bool = False) -> Self:
        """Return the fleet that ``to_bytes`` saved.

        Parameters
        ----------
        data
            The saved bytes.
        learner
            The learner of the models, if it is one of another library.
        trust_pickle
            Whether to load bytes that hold a pickle. Pickles can run any code: trust only files of your own.
        """
        return cls.from_state(from_bytes(data, trust_pickle=trust_pickle), learner)
