"""One pair of functions that save and load anything: models, fleets, detectors, encoders, learners, stores of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from driftsurf import baselines, detectors, estimators, learners
from driftsurf._described import plain
from driftsurf.encoding import TableEncoder
from driftsurf.errors import CapabilityError, StateError
from driftsurf.fleet import Fleet
from driftsurf.runtime import files
from driftsurf.samples import Samples
from driftsurf.state import from_bytes, look, nest, pick, read_header, to_bytes

__all__ = ["load", "save"]

_FACES = {
    name: getattr(home, name)
    for home in (estimators, baselines)
    for name in home.__all__
    if hasattr(getattr(home, name), "from_bytes")
}
"""Models, by name."""
_PARTS = {name: getattr(home, name) for home in (detectors, learners) for name in home.__all__}
"""Made of parameters and a state, by name."""
_WHOLE: dict[str, Any] = {kind.__name__: kind for kind in (TableEncoder, Samples)}
"""Whose state says all, by name."""


def save(thing: Any, path: str | Path, *, trust_pickle: bool = False) -> None:
    """Write ``thing`` to a file, whole or not at all; the one it replaces is kept as ``path.previous``.

    >>> import tempfile
    >>> from driftsurf.detectors import ADWIN
    >>> detector = ADWIN()
    >>> _ = detector.update([0, 1, 0])
    >>> with tempfile.TemporaryDirectory() as place:
    ...     save(detector, Path(place) / "adwin.state")
    ...     load(Path(place) / "adwin.state").width
    3
    """
    files.keep_previous(Path(path), _packed(thing, trust_pickle), good=read_header)


def load(path: str | Path, learner: Any = None, *, trust_pickle: bool = False) -> Any:
    """What is in a file, whatever it is. A learner from elsewhere has to be given again, and so has trust in pickles.

    StateWarning if the file is damaged and ``path.previous`` was used.
    """
    data = files.read_kept(Path(path), good=read_header)
    held: dict[str, Any] = look(data)
    if held.get("estimator") in _FACES:
        return _FACES[held["estimator"]].from_bytes(data, learner, trust_pickle=trust_pickle)
    if "fleet" in held:
        return Fleet.from_bytes(data)
    return _unpacked(from_bytes(data, trust_pickle=trust_pickle))


def _packed(thing: Any, trust_pickle: bool) -> bytes:
    name = type(thing).__name__
    if isinstance(thing, Fleet):
        return thing.to_bytes()
    if type(thing) is _FACES.get(name):
        data: bytes = thing.to_bytes(trust_pickle=trust_pickle)
        return data
    if type(thing) not in (_PARTS.get(name), _WHOLE.get(name)):
        raise CapabilityError(
            f"{thing!r} is nothing that can be saved by itself; what can: models of driftsurf, fleets, detectors, "
            "learners of driftsurf.learners, TableEncoder, Samples"
        )
    head = {"object": name}
    if name in _PARTS:
        head["params"] = json.dumps(thing.get_params(), sort_keys=True, default=plain)
    if name in learners.__all__ and not hasattr(thing, "_fitted"):
        raise StateError(f"{thing!r} has learnt nothing yet, so there is nothing to save: learn something first")
    return to_bytes(head | nest("state", thing.state()))


def _unpacked(held: Any) -> Any:
    name, state = held.get("object"), pick("state", held)
    try:
        if name in _PARTS:
            template = _PARTS[name](**json.loads(held["params"]))
            return type(template).from_state(template, state)
        if name in _WHOLE:
            return _WHOLE[name].from_state(state)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        if isinstance(error, StateError):
            raise
        raise StateError(f"the saved {name} does not fit together ({error!r})") from error
    raise StateError(f"this file holds {name or held.get('kind') or 'something'!r}, which load does not know")
