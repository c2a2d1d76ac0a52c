"""What was run: source, label, model, settings, version, and a command that repeats it."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.report import html
from driftsurf.report.sections import RunView, Section
from driftsurf.report.what_was_run import command_line, settings
from driftsurf.visible import escape


def build(run: RunView) -> Iterator[str]:
    """Return the table and the command; nothing if it is not known what was run."""
    listed = settings(run.about, run.trace.stream, len(run.trace.labels))
    if not listed:
        return
    lines = "".join(f'<tr><th scope="row">{escape(word)}</th><td>{escape(text)}</td></tr>' for word, text in listed)
    yield f'<div class="wide"><table class="settings">{lines}</table></div>'
    served = "This command runs the same model over the rows of the log, as far as they are kept:"
    command = command_line(run.about, run.trace.stream)
    if command:
        yield html.note(served if run.about.get("served") else "This command repeats the run:")
        yield f'<pre class="command"><code>{escape(command)}</code></pre>'


SECTION = Section("What was run", 100, build)
