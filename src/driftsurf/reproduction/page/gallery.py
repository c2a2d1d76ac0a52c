"""The pictures of the page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

from driftsurf.visible import escape

if TYPE_CHECKING:
    from driftsurf.reproduction.figures import Picture


class Gallery:
    """The pictures of the page, by name."""

    def __init__(self, pictures: Sequence[Picture]) -> None:
        self._by_name = {picture.name: picture for picture in pictures}

    def show(self, *names: str) -> str:
        """Return these pictures as HTML; names without a picture are left out."""
        return "".join(_figure(self._by_name[name]) for name in names if name in self._by_name)


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode("ascii")
    caption = escape(picture.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption} (figures/{escape(picture.name)}.pdf)</figcaption></figure>"
    )
