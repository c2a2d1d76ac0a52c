"""Documentation of options, made from their definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from driftsurf.cli.options import value_types
from driftsurf.comparison.options import COMPARE_GROUPS
from driftsurf.core.options import OptionField, OptionGroup
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.reproduction.options import REPRODUCE_GROUPS
from driftsurf.runs.options import GROUPS, PredictOptions
from driftsurf.service.config import SERVE_TABLES
from driftsurf.service.settings import SERVE_GROUPS

__all__ = ["options_page"]

_FLAG = re.compile(r"(?<!`)--([a-z][a-z-]*)")
_DEFAULT = re.compile(r"\s*\[default: (.*)\]$", re.DOTALL)
VALUES = {bool: "yes or no", float: "number", int: "whole number"}
TABLE_HEAD = "| option | value | default | meaning |\n|---|---|---|---|"
HEAD = """# Options

Every option is defined once, in `driftsurf.runs.options`, `driftsurf.data.reading_options`, `driftsurf.keyed.options`,
`driftsurf.comparison.options`, `driftsurf.reproduction.options`, `driftsurf.service.settings`,
`driftsurf.service.settings`, `driftsurf.service.settings`, `driftsurf.runs.alerts.rules` or
`driftsurf.service.telemetry`. This page is made from them by `make generate`.

An option of a run has the same name on the command line (`driftsurf run SOURCE --batch-size 500`), in a TOML file
(`batch-size = 500`) and in Python (`driftsurf.run(source, batch_size=500)`); the tables give the name in Python where
it differs. The options of a run come first, those of `driftsurf predict`, `driftsurf compare`, `driftsurf reproduce`
and `driftsurf serve` at the end; the last three can also stand in a TOML file.
"""
COMPARE_HEAD = """
## driftsurf compare

In Python, `driftsurf.comparison.inputs.Input` has the options of a source, and `driftsurf.comparison.compare.compare`
those of models and work, with the folder as its first argument instead of `--out` and without `--cluster`. Files are
read with the options of [Reading of tables](#reading-of-tables).
"""
PREDICT_HEAD = """
## driftsurf predict

In Python, `driftsurf.runs.predict.predict(run, source, PredictOptions(...))`. Rows are read with the options of
[Reading of tables](#reading-of-tables), which are those of the run unless others are given.
"""
REPRODUCE_HEAD = """
## driftsurf reproduce

In Python, `driftsurf.reproduction.reproduce.reproduce` has the same options, with the folder as its first argument
instead of `--out` and without `--cluster`.
"""


SERVE_HEAD = """
## driftsurf serve

In `serve.toml` (see [Serving](serve.md)), options of the service stand at the top, those of a model in its table
`[models.NAME]`, and limits in `[limits]`. They have no function in Python; the name there is that of the field. The
tables [Keeping](#keeping), [Alerts](#alerts) and [Telemetry](#telemetry) are `[keeping]`, `[alerts]` and `[telemetry]`
of `serve.toml`; the command line does not have their options.
"""


def options_page() -> str:
    """Return the page of documentation about all options."""
    compared = [group for group in COMPARE_GROUPS if group.options is not ReadingOptions]
    return "".join(
        (
            HEAD,
            _tables(GROUPS),
            PREDICT_HEAD,
            _tables([OptionGroup("predict", "Predictions", PredictOptions)], "###"),
            COMPARE_HEAD,
            _tables(compared, "###"),
            REPRODUCE_HEAD,
            _tables(REPRODUCE_GROUPS, "###"),
            SERVE_HEAD,
            _tables(SERVE_GROUPS, "###"),
            _tables(SERVE_TABLES, "###", toml=True),
        )
    )


def _tables(groups: Iterable[OptionGroup], heading: str = "##", *, toml: bool = False) -> str:
    """Return a table of options for each heading of groups; ``toml`` if they stand in a TOML file alone."""
    sections: dict[str, list[str]] = {}
    for group in groups:
        sections.setdefault(group.title, []).extend(_row(field, toml=toml) for field in group.fields.values())
    return "".join(
        f"\n{heading} {title}\n\n{TABLE_HEAD}\n" + "\n".join(rows) + "\n" for title, rows in sections.items()
    )


def _row(field: OptionField, *, toml: bool = False) -> str:
    default = _DEFAULT.search(field.help)
    meaning = _FLAG.sub(lambda found: f"`{found[0]}`", field.help[: default.start()] if default else field.help)
    shown = default[1] if default else _default(field)
    names = f"`{field.toml_name}`" if toml else _names(field)
    return "| " + " | ".join(_cell(text) for text in (names, _value(field), shown, meaning)) + " |"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _names(field: OptionField) -> str:
    if field.flag is None:
        return f"Python only: `{field.name}`"
    same = field.toml_name.replace("-", "_") == field.name
    return f"`{field.flag}`" + ("" if same else f" (Python: `{field.name}`)")


def _value(field: OptionField) -> str:
    if field.choices:
        return ", ".join(f"`{choice}`" for choice in field.choices)
    if field.metavar is not None:
        return f"`{field.metavar}`"
    kinds = value_types(field.hint)
    return next((name for kind, name in VALUES.items() if kind in kinds), "text")


def _default(field: OptionField) -> str:
    if field.default is None or field.default == () or field.default == {}:
        return ""
    if isinstance(field.default, bool):
        return "yes" if field.default else "no"
    if isinstance(field.default, tuple):
        return f"`{', '.join(map(str, field.default))}`"
    return f"`{field.default}`"
