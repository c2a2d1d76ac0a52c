"""Save and load anything with one pair of functions: models, fleets, detectors, learners, encoders, stored rows.

Estimators, detectors and learners are found by name in :mod:`driftsurf.registry`, those of other packages included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from driftsurf import registry
from driftsurf.core import files
from driftsurf.core.contracts import Detector, Learner
from driftsurf.core.fields import Fields, Text
from driftsurf.core.frames import LearnerLike
from driftsurf.core.options import shown
from driftsurf.core.samples import Samples
from driftsurf.core.state import from_bytes, nest, pick, read_header, to_bytes
from driftsurf.data.encoding import TableEncoder
from driftsurf.errors import CapabilityError, StateError
from driftsurf.estimators.base import AdaptiveEstimator
from driftsurf.estimators.classes import find_estimator
from driftsurf.keyed import Fleet
from driftsurf.runs.folder import model_path
from driftsurf.session.described import to_json_value

__all__ = ["Savable", "dumps", "load", "loads", "save"]

Savable: TypeAlias = AdaptiveEstimator | Fleet | Learner | Detector | TableEncoder | Samples
"""Objects that :func:`save` writes."""
_SELF_CONTAINED: dict[str, type[TableEncoder] | type[Samples]] = {"TableEncoder": TableEncoder, "Samples": Samples}
"""Classes whose state holds their parameters, too."""
ALONE = Fields({"object": Text()}, parts=["state"])
WITH_PARAMS = Fields({"object": Text(), "params": Text()}, parts=["state"])
"""Entries of a saved object without and with parameters."""


def save(thing: Savable, path: str | Path, *, trust_pickle: bool = False) -> None:
    """Write an object to a file, completely or not at all; a previous file is renamed to ``path.previous``.

    Parameters
    ----------
    thing
        A fitted estimator, a fleet, a detector, a trained learner, an encoder, or a store of rows.
    path
        The file.
    trust_pickle
        Whether to save a learner of another library that only pickle can save.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf import load
    >>> from driftsurf.detectors import ADWIN
    >>> detector = ADWIN()
    >>> _ = detector.update([0, 1, 0])
    >>> with tempfile.TemporaryDirectory() as place:
    ...     save(detector, Path(place) / "adwin.state")
    ...     load(Path(place) / "adwin.state").width
    3
    """
    files.write_with_backup(Path(path), dumps(thing, trust_pickle=trust_pickle), good=read_header)


def load(path: str | Path, learner: LearnerLike | None = None, *, trust_pickle: bool = False) -> Any:
    """Load the object that :func:`save` wrote, or the model of a run.

    The model of a run is an estimator. If the run learned tables, it takes frames with the columns of the run: the
    label, dropped columns and ids are ignored if they are there, and text becomes dates and numbers where it did in
    the run.

    Parameters
    ----------
    path
        The file, a run folder, or a folder of checkpoints whose run is finished. StateWarning if the file is damaged
        and ``path.previous`` was loaded instead.
    learner
        The learner of a model, if it is one of another library.
    trust_pickle
        Whether to load a file that holds a pickle. Pickles can run any code: trust only files of your own.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import driftsurf
    >>> folder = Path(tempfile.mkdtemp())
    >>> table, out = folder / "sales.csv", folder / "run"
    >>> _ = table.write_text("price,sold\\n" + "1.5,yes\\n9.5,no\\n" * 200)
    >>> _ = driftsurf.run(table, label="sold", model="driftsurf:logistic", out=out, progress=False)
    >>> load(out).predict({"price": [2.0, 9.0]})
    array(['yes', 'no'], dtype='<U3')
    """
    file = model_path(Path(path))
    return loads(files.read_with_backup(file, good=read_header), learner, trust_pickle=trust_pickle)


def loads(data: bytes, learner: LearnerLike | None = None, *, trust_pickle: bool = False) -> Any:
    """Return the object that :func:`dumps` was called on; arguments as for :func:`load`.

    Examples
    --------
    >>> from driftsurf.detectors import DDM
    >>> from driftsurf.saving import dumps
    >>> detector = DDM(min_rows=50)
    >>> _ = detector.update([0, 1, 0])
    >>> loads(dumps(detector))
    DDM(min_rows=50, warning_level=2.0, drift_level=3.0)
    """
    state = from_bytes(data, trust_pickle=trust_pickle)
    if "estimator" in state:
        kind = find_estimator(str(state["estimator"]))
        if kind is not None:
            return kind.from_state(state, learner)
    if "fleet" in state:
        return Fleet.from_state(state, learner)
    return _from_state(state)


def dumps(thing: Savable, *, trust_pickle: bool = False) -> bytes:
    """Return an object as bytes, as :func:`save` writes them.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> from driftsurf.saving import loads
    >>> model = DriftSurfClassifier(random_state=0).partial_fit([[0.0], [1.0]], [0, 1])
    >>> data = dumps(model)  # the same model always gives the same bytes
    >>> data == dumps(loads(data))
    True
    """
    name = type(thing).__name__
    if isinstance(thing, Fleet):
        return thing.to_bytes(trust_pickle=trust_pickle)
    if isinstance(thing, AdaptiveEstimator) and find_estimator(name) is type(thing):
        return thing.to_bytes(trust_pickle=trust_pickle)
    if isinstance(thing, TableEncoder | Samples):
        return to_bytes({"object": name} | nest("state", thing.state()))
    if isinstance(thing, AdaptiveEstimator) or _entry(type(thing)) is None:
        raise CapabilityError(
            f"{shown(thing)} cannot be saved by itself; what can: estimators of registered strategies, fleets, "
            "registered detectors and learners, TableEncoder, Samples. A class of your own is registered by "
            "@driftsurf.registry.register(KIND, NAME)"
        )
    params = json.dumps(thing.get_params(), sort_keys=True, default=to_json_value)
    try:
        state = thing.state()
    except AttributeError as error:  # a learner has no state before its first update
        raise StateError(f"{thing!r} has not learned anything yet, so there is nothing to save") from error
    return to_bytes({"object": name, "params": params} | nest("state", state))


def _entry(kind: type | str) -> registry.Entry | None:
    return registry.find("detector", kind) or registry.find("learner", kind)


def _from_state(held: Mapping[str, Any]) -> Any:
    known = [held[entry] for entry in ("object", "estimator", "kind") if entry in held]
    name, state = str(known[0]) if known else "something", pick("state", held)
    try:
        if name in _SELF_CONTAINED:
            ALONE.read(held)
            return _SELF_CONTAINED[name].from_state(state)
        entry = _entry(name)
        if entry is not None:
            WITH_PARAMS.read(held)
            template = entry.part(**json.loads(held["params"]))
            return type(template).from_state(template, state)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        if isinstance(error, StateError):
            raise
        raise StateError(f"the saved {name} is not consistent ({error!r})") from error
    raise StateError(
        f"this file holds {name!r}, which is not registered with driftsurf; import the module that registers it first"
    )
