"""Draw the animated terminal of the README: ``python -m tools.terminal docs/images/terminal.svg``.

The commands are run on the table of the tutorial, and what they print is drawn line by line. The drawing moves by style
alone, without a script; readers who prefer no motion see the last screen.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from driftsurf.report.figure import drawing, element

__all__ = ["Screen", "animated", "main"]

COMMANDS = (
    "driftsurf run sales.csv --label sold --drop at --model recommended-linear --out runs/sales",
    "driftsurf explain runs/sales",
)
COLUMNS, LINES = 96, 27
"""Size of the terminal in letters."""
SECONDS = 20.0
TYPING, HOLDING = 1.6, 3.0
"""Seconds in which a command is typed, and for which its whole output stays."""
STEP, LEFT, TOP = 19.0, 18.0, 52.0
"""Distance of the lines, and margins."""
CELL = 7.83
"""Width of a letter."""
BUTTONS = "#ff8a3d", "#e6c229", "#3ddbaa"
STYLE = """
.ground { fill: #14181e; } .line { fill: #e8ebf0; animation: %gs step-end infinite;
  font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.prompt { fill: #56b4e9; } .sign { fill: #ff8a3d; } .switch { fill: #3ddbaa; }
"""


@dataclass
class Screen:
    """A command and the lines that it prints, all of which fit on the terminal."""

    command: str
    lines: list[str]
    begins: float = 0.0
    """Second of the animation in which the terminal is cleared for the command."""
    ends: float = SECONDS
    """Second in which the next screen begins."""

    def moments(self) -> Iterator[tuple[float, str]]:
        """Yield each line with the second in which it appears."""
        first, last = self.begins + TYPING, self.ends - HOLDING
        for place, line in enumerate(self.lines):
            yield first + (last - first) * place / max(1, len(self.lines) - 1), line


def recorded(command: str, folder: Path) -> list[str]:
    """Return the lines that a command prints on a terminal of this width; warnings go elsewhere."""
    environment = os.environ | {"COLUMNS": str(COLUMNS)}
    program = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [line.rstrip() for line in done.stdout.splitlines() if line.strip()]


def shown(lines: list[str]) -> list[str]:
    """Return as many lines as a screen has below its command; an ellipsis stands for the rest."""
    return lines if len(lines) < LINES else [*lines[: LINES - 2], "..."]


def scheduled(screens: list[Screen]) -> list[Screen]:
    """Give each screen a share of the seconds: a fixed part, and one in proportion to its lines."""
    lines, moving = sum(len(one.lines) for one in screens), SECONDS - len(screens) * (TYPING + HOLDING)
    begins = 0.0
    for one in screens:
        one.begins = begins
        one.ends = begins = begins + TYPING + HOLDING + moving * len(one.lines) / lines
    return screens


def _kind(line: str) -> str:
    if "began to test a new model" in line or "crossed" in line:
        return "line sign"
    return "line switch" if "switched to the new model" in line or "better" in line else "line"


def _frames(name: str, begins: float, ends: float) -> str:
    """Return an animation in which something is visible from one second to another."""
    shares = [f"{100 * moment / SECONDS:.3f}%" for moment in (begins, ends)]
    seen = f"{shares[0]} {{ visibility: visible; }}"
    return f"@keyframes {name} {{ 0%, {shares[1]}, 100% {{ visibility: hidden; }} {seen} }}\n"


def animated(screens: list[Screen]) -> str:
    """Return the drawing of a terminal that shows one screen after the other, and begins again.

    >>> text = animated(scheduled([Screen("driftsurf run sales.csv --label sold", ["mean error 0.03"])]))
    >>> text.startswith("<svg") and "0.03" in text and "<script" not in text
    True
    """
    width, height = 2 * LEFT + COLUMNS * CELL, TOP + LINES * STEP + 6
    style, parts = [STYLE % SECONDS], list[str]()
    for number, screen in enumerate(screens):
        moments = [(screen.begins + 0.3, f"$ {screen.command}"), *screen.moments()]
        for place, (moment, line) in enumerate(moments):
            name = f"s{number}l{place}"
            style.append(_frames(name, moment, screen.ends))
            css = "line prompt" if place == 0 else _kind(line)
            parts.append(_text(line, TOP + place * STEP, css, name, still=screen is screens[-1]))
    style.append("@media (prefers-reduced-motion: reduce) { .line { animation: none; visibility: hidden; }")
    style.append(".line.still { visibility: visible; } }")
    dots = [element("circle", cx=LEFT + 18.0 * place, cy=20, r=5, fill=fill) for place, fill in enumerate(BUTTONS)]
    ground = element("rect", class_="ground", width=width, height=height, rx=10)
    said = "A terminal: " + ", then ".join(one.command for one in screens)
    return drawing(width, height, said, [f"<style>{''.join(style)}</style>", ground, *dots, *parts], standalone=True)


def _text(line: str, y: float, css: str, name: str, *, still: bool) -> str:
    """Return a line of text; spaces are kept, and its width does not depend on the fonts of the reader."""
    kept = line.replace(" ", "\u00a0")
    css += " still" * still
    return element("text", kept, class_=css, x=LEFT, y=y, style=f"animation-name: {name}", textLength=CELL * len(line))


def main(path: str) -> None:
    """Run the commands on the table of the tutorial, and write the drawing."""
    tutorial = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text(encoding="utf-8")
    table = re.search(r"```python\n(.*?)```", tutorial, re.S)
    assert table is not None
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([sys.executable, "-c", table[1]], cwd=place, check=True)
        screens = [Screen(command, shown(recorded(command, Path(place)))) for command in COMMANDS]
    Path(path).write_text(animated(scheduled(screens)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
