"""Options of alerts: the limits of the rules and the channels, as the table ``[alerts]`` of ``serve.toml``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from driftsurf.core.option_fields import check_bounds, option, option_fields
from driftsurf.core.options import choice, shown
from driftsurf.errors import DriftsurfWarning, OptionError
from driftsurf.service.alerts.channels import Channel, channel_of

__all__ = ["AlertOptions", "read_alerts"]

RENAMED: Final[Mapping[str, str]] = {"error-noise": "trivial-noise"}
"""Options of earlier versions that still are read, with their new names."""


@dataclass(frozen=True, kw_only=True)
class AlertOptions:
    """Limits of the rules; a condition has to last for ``hold`` seconds before an alert is sent.

    Examples
    --------
    >>> AlertOptions(lag_rows=1000).lag_rows
    1000
    """

    interval: float = option(5.0, "Seconds between two readings of a model.", above=0.0)
    hold: float = option(30.0, "Seconds that a condition has to last, or to be over, before it counts.", at_least=0.0)
    drifts: bool = option(True, "Whether the beginning and the end of each drift of a model are sent.")
    trivial_noise: float = option(
        3.0, "Standard errors by which the error has to be above that of a rule without a model.", above=0.0
    )
    label_silence: float = option(3600.0, "Seconds without a label while a row waits for one.", above=0.0)
    lag_rows: int = option(100_000, "Rows that may wait to be learned.", at_least=1)
    refused_share: float = option(0.05, "Share of the rows of an interval that may be refused.", at_least=0.0)
    challenger_gain: float = option(
        0.01, "Share of the model's error by which that of a challenger has to be lower.", at_least=0.0
    )
    disk_free: float = option(
        2 * 2**30, "Free bytes on the disk of a model below which an alert is raised.", at_least=0
    )
    transitions: bool = option(False, "Whether each transition of a model, and each order, is sent.")
    address: str = option(
        "", "Address of this service in links, such as https://models.example.org.  [default: of host and port]"
    )
    channels: Mapping[str, Channel] = field(default_factory=dict)
    """Receivers, by name."""

    def check(self) -> None:
        """Raise OptionError if a limit cannot be used."""
        check_bounds(self)


def read_alerts(table: Mapping[str, Any]) -> AlertOptions:
    """Return the options of a table ``[alerts]``, with its channels ``[alerts.channels.NAME]``.

    Examples
    --------
    >>> options = read_alerts({"lag-rows": 1000, "channels": {"ops": {"kind": "webhook", "url": "https://ops.example"}}})
    >>> options.lag_rows, options.channels["ops"].kind
    (1000, 'webhook')
    """
    names = {one.toml_name: name for name, one in option_fields(AlertOptions).items()}
    channels = table.get("channels", {})
    if not isinstance(channels, Mapping) or not all(isinstance(one, Mapping) for one in channels.values()):
        raise OptionError(f"alerts.channels must be tables [alerts.channels.NAME]; got {shown(channels)}")
    for name in table:
        choice("option of [alerts]", name, (*names, *RENAMED, "channels"))
    for name, new in RENAMED.items():
        if name in table:
            if new in table:
                raise OptionError(f"[alerts] has both {name!r} and {new!r}, which replaces it; leave {name!r} out")
            text = f"[alerts] has {name!r}, which is deprecated: drifts are told without a limit. Write {new!r} instead"
            warnings.warn(text, DriftsurfWarning, stacklevel=2)
            table = {**{key: value for key, value in table.items() if key != name}, new: table[name]}
    options = AlertOptions(
        **{names[name]: value for name, value in table.items() if name != "channels"},
        channels={name: channel_of(name, settings) for name, settings in channels.items()},
    )
    options.check()
    return options
