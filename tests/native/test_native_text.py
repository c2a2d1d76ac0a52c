"""Memory that does not fit is refused by the compiled search; what it finds is tested with the readers of files."""

from __future__ import annotations

import numpy as np
import pytest

from driftsurf.native import text


def room(*shape: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.zeros(shape, np.int64)


@pytest.mark.parametrize("newlines", [[3], [-1], [1, 1], [2, 1]])
def test_places_of_lines_have_to_rise_within_the_data(newlines: list[int]) -> None:
    places = np.array(newlines, np.int64)
    with pytest.raises(ValueError, match="newlines must rise"):
        text.find_lines(b"a\nb", places, 44, True, 10, room(5, len(newlines) + 1))


def test_memory_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="out has 5 places for 1 lines"):
        text.find_lines(b"a\nb", np.array([1]), 44, True, 10, room(5, 1))
    with pytest.raises(ValueError, match="out has 4 places"):
        text.find_records(b"a", (44, 34, -1), True, 10, (0, 0), room(1, 4))
    with pytest.raises(ValueError, match="begin is"):
        text.find_records(b"a", (44, 34, -1), True, 10, (-1, 0), room(1, 5))
    with pytest.raises(ValueError, match="begin is"):
        text.find_elements(b"1]", True, 10, (-1, 0), room(1, 4))
    with pytest.raises(ValueError, match="out has 2 bytes"):
        text.trim_cells(b"a,b", 44, 34, np.zeros(2, np.uint8))


def test_limits_beyond_the_data_do_not_overflow() -> None:
    out = room(4, 4)
    assert text.find_elements(b"[1, {]", True, 2**63 - 1, (0, 0), out) == (1, False)
    assert out[0].tolist() == [6, 0, 1, text.MISMATCHED]
