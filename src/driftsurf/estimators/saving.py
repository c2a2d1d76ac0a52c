"""How estimators are saved and loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from driftsurf.core import files
from driftsurf.core.fields import misfit
from driftsurf.core.state import from_bytes, pick, read_header
from driftsurf.core.typing import LearnerLike
from driftsurf.errors import StateError
from driftsurf.estimators.fitted import Fitted, FittedEstimator
from driftsurf.estimators.saved import FIELDS, estimator_bytes
from driftsurf.session.described import part_from_json, same_learner

__all__ = ["SavedEstimator"]


class SavedEstimator(FittedEstimator):
    """Estimator that is saved as bytes without pickle, and resumes exactly."""

    def to_bytes(self, *, trust_pickle: bool = False) -> bytes:
        """Return the whole model as bytes; ``from_bytes`` resumes it exactly.

        A learner of another library that only pickle can save is refused by name unless ``trust_pickle`` is true; then
        it has to be true for loading, too. The journal is not saved with the model; keep it with
        ``journal_.to_jsonl()``, or set ``model.journal_.sink = write_line``.
        """
        session, params, frames = self._model
        return estimator_bytes(type(self).__name__, params, session, frames, trust_pickle=trust_pickle)

    def save(self, path: str | Path, *, trust_pickle: bool = False) -> None:
        """Write ``to_bytes()`` to a file, completely or not at all; a previous file is kept as ``path.previous``."""
        files.write_with_backup(Path(path), self.to_bytes(trust_pickle=trust_pickle), good=read_header)

    @classmethod
    def load(cls, path: str | Path, learner: LearnerLike | None = None, *, trust_pickle: bool = False) -> Self:
        """Load a model that ``save`` wrote; the arguments are those of ``from_bytes``.

        StateWarning if the file is damaged and ``path.previous`` was loaded instead.
        """
        return cls.from_bytes(files.read_with_backup(Path(path), good=read_header), learner, trust_pickle=trust_pickle)

    @classmethod
    def from_bytes(cls, data: bytes, learner: LearnerLike | None = None, *, trust_pickle: bool = False) -> Self:
        """Return the model that ``to_bytes`` was called on.

        Parameters
        ----------
        data
            The saved bytes.
        learner
            The learner, if it is one of another library; one of a registered class is restored from the bytes.
        trust_pickle
            Whether to load bytes that hold a pickle. Pickles can run any code: trust only files of your own.
        """
        return cls.from_state(from_bytes(data, trust_pickle=trust_pickle), learner)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], learner: LearnerLike | None = None) -> Self:
        """Return the model with these saved entries, as :func:`driftsurf.core.state.from_bytes` reads them."""
        if str(state.get("estimator")) != cls.__name__:
            raise StateError(f"these bytes hold a {state.get('estimator')!r}, not a {cls.__name__}", entry="estimator")
        known = FIELDS.read(state)
        try:
            params = json.loads(known["params"], object_hook=part_from_json)
            template = same_learner(learner, known["learner"], known["learner_params"])
            model = cls(template, **params)
            session, params = model._new_session(model._template())
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, StateError):
                raise
            raise StateError(f"the parameters in these bytes cannot be read: {error}") from error
        session.restore(pick("session", state))
        if session.schema is None:
            raise StateError("these bytes hold a model that has not learned any batch")
        frames = None
        if encoder := pick("encoder", state):
            from driftsurf.data.frame_encoder import FrameEncoder

            frames = FrameEncoder.from_state(encoder)
            if frames.encoder.width != session.schema.n_features:
                raise misfit(encoder, "parts", f"make {frames.encoder.width} columns, not {session.schema.n_features}")
        model._publish(Fitted(session, params, frames))
        return model
