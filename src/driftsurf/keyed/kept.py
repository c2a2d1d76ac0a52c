"""Models of keys that this process has just saved, so that it need not read and check them again at the next visit."""

from __future__ import annotations

from typing import Any

__all__ = ["KeptModels"]

MOST_BYTES = 2**24
"""Size of all saved states whose models are kept, roughly; the models take a few times as much memory."""


class KeptModels:
    """Models by key, each with the bytes that were saved of it.

    A model is handed out for exactly these bytes and only once: it then belongs to the visit, and if the visit fails,
    the next one reads the bytes. So results do not depend on what is kept, and bytes from anywhere else are always
    checked. When there is no more room, the models that are kept stay, so that visits to many keys in turn find some.

    >>> kept = KeptModels()
    >>> kept.keep(7, b"saved", "model")
    >>> kept.take(7, b"other"), kept.take(7, b"saved")
    (None, None)
    >>> kept.keep(7, b"saved", "model")
    >>> kept.take(7, b"saved"), kept.take(7, b"saved")
    ('model', None)
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._models: dict[int, tuple[bytes, Any]] = {}

    def __len__(self) -> int:
        return len(self._models)

    def keep(self, key: int, state: bytes, model: Any) -> None:
        """Keep the model that was saved as ``state``, if there is room; nobody else may use it from now on."""
        if (len(self._models) + 1) * len(state) <= self.most_bytes:
            self._models[key] = state, model

    def take(self, key: int, state: bytes) -> Any | None:
        """Return the model that was saved as ``state``, and drop it; None if another one or none was kept."""
        saved, model = self._models.pop(key, (None, None))
        return model if saved == state else None
