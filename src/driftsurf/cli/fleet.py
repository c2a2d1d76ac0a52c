"""Keyed runs from the command line: a learner for each key, on either engine, and how the keys are doing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

__all__ = ["fleet"]


class _Fleet(click.Group):
    """`fleet RUN` is short for `fleet show RUN`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_Fleet)
def fleet() -> None:
    """A learner for each key: run one over files, or show how the keys of a RUN are doing."""


@fleet.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Keys to print.")
def show(run: Path, limit: int) -> None:
    """Print how the keys of a RUN are doing, and write its page: which keys drifted when."""
    _show(run, limit)


def _show(run: Path, limit: int) -> None:
    from driftsurf.engines.tables import KeyedFolder
    from driftsurf.errors import RunFolderError
    from driftsurf.report import fleet as report
    from driftsurf.runtime import files

    folder = KeyedFolder(run)
    folder.about()
    if not folder.epochs():
        raise RunFolderError(f"{str(run)!r} has no whole epoch yet: there are no keys to show")
    keys = folder.compact()
    journal = folder.read("journal", ["key", "sequence", "transitions"])
    rows = zip(journal["key"], journal["sequence"], journal["transitions"], strict=True)
    changes = [report.Change(*row) for row in rows if row[2]]
    report.print_keys(keys, limit=limit)
    files.write_text(run / "fleet.html", report.render(f"Keys of {run.name}", keys, changes))
    click.echo(f"page: {run / 'fleet.html'}")


def _split(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (value or "").split(",") if name.strip())


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _readmit(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[Any, int]:
    try:
        pairs = [value.rsplit("=", 1) for value in values]
        return {key: int(sequence) for key, sequence in pairs}
    except ValueError:
        raise click.BadParameter("give KEY=SEQUENCE, as the table of keys shows them") from None


def _batch_size(_: click.Context, __: click.Parameter, value: str) -> int | None:
    if value == "epoch":
        return None
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number of rows nor 'epoch'") from None


def _step_size(_: click.Context, __: click.Parameter, value: str) -> Any:
    number = _number(value)
    if value != "auto" and not isinstance(number, int | float):
        raise click.BadParameter(f"{value!r} is neither a number nor 'auto'")
    return number


@fleet.command("run")
@click.argument("source")
@click.option("--key", required=True, help="The column that tells the keys apart: whole numbers or text.")
@click.option("--sequence", required=True, help="The column that grows along each key's rows: numbers or times.")
@click.option("--label", required=True, help="The column to predict.")
@click.option("--id", "id_", help="The column by which late labels find their rows (with --delay).")
@click.option("--features", callback=_split, help="Columns to learn from, with commas.  [default: all other numbers]")
@click.option("--classes", callback=_split, help="The labels, with commas.  [default: those that come]")
@click.option("--engine", type=click.Choice(["local", "spark"]), default="local", show_default=True)
@click.option("--master", help="Where Spark runs: local[4], spark://host:7077, yarn ...")
@click.option("--partitions", type=click.IntRange(min=1), help="Parts of Spark's state, for the life of the run.")
@click.option(
    "--epoch", type=click.IntRange(min=1), help="Rows (local, 100,000) or files (Spark, all) that make an epoch."
)
@click.option(
    "--batch-size",
    callback=_batch_size,
    default="32",
    show_default=True,
    help="Rows of a key that make a time step, or 'epoch'.",
)
@click.option("--delay", type=float, help="Labels may come so much later, in units of the sequence.")
@click.option("--ttl", type=float, help="Keys that are silent for longer are given up, in units of the sequence.")
@click.option("--threshold", type=float, default=0.3, show_default=True, help="Rise of the risk that signals drift.")
@click.option("--max-rows", type=click.IntRange(min=1), default=128, show_default=True, help="Rows kept a key.")
@click.option("--step-size", callback=_step_size, default="auto", show_default=True, help="A number or 'auto'.")
@click.option("--l2", type=float, default=1e-4, show_default=True, help="L2 regularisation.")
@click.option(
    "--max-bytes", type=click.IntRange(min=1), default=2**20, show_default=True, help="Bound of a key's state."
)
@click.option("--readmit", multiple=True, callback=_readmit, help="KEY=SEQUENCE: forgive a key in quarantine.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Fixes every random draw.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="The run folder.")
@click.option("--quiet", is_flag=True, help="Print only the result.")
def run_(
    source: str,
    key: str,
    sequence: str,
    label: str,
    id_: str | None,
    classes: tuple[str, ...],
    engine: str,
    master: str | None,
    partitions: int | None,
    epoch: int | None,
    ttl: float | None,
    out: Path,
    quiet: bool,
    **options: Any,
) -> None:
    """Learn each key of SOURCE (a file, a folder, a pattern), with the same outputs on either engine.

    The same command goes on with what is new: rows that were learnt are not learnt again. Writes predictions/,
    journal/ and keys/ as Parquet, an epoch a folder, and fleet.html.
    """
    from driftsurf.engines import Columns, KeyedOptions, run_keyed

    def tell(number: int, counts: Mapping[str, int]) -> None:
        if not quiet:
            click.echo(f"epoch {number}: " + ", ".join(f"{value:,} {name}" for name, value in counts.items() if value))

    given = KeyedOptions(classes=tuple(_number(one) for one in classes) or None, **options)
    run_keyed(
        source,
        out,
        Columns(key, sequence, label, id_),
        given,
        engine=engine,
        master=master,
        partitions=partitions,
        epoch=epoch,
        ttl=ttl,
        on_epoch=tell,
    )
    _show(out, 20)
