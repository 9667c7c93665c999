"""Commands on files that people bring: ``lasthop trace`` and ``lasthop from-capture``.

Reads arguments, calls the modules of the files, prints.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lasthop import files, terminal
from lasthop.commands.options import PlotOption, PrintJsonOption, ReplaceFileOption
from lasthop.errors import ArgumentError
from lasthop.terminal import user_errors

#: A length of time on the command line, and its units in seconds.
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def trace(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Recording of a link.", show_default=False)],
    direction: Annotated[
        str, typer.Option("--direction", metavar="WAY", help="Which rate, where a row has both: down or up.")
    ] = "down",
    target: Annotated[
        str | None,
        typer.Option("--to", metavar="FORMAT", help="Convert it: csv, mahimahi or pensieve."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="With --to: where; otherwise it is printed.")
    ] = None,
    interval: Annotated[
        str,
        typer.Option(
            "--interval", metavar="TIME", help="With --to: averaging time of rates from opportunities."
        ),
    ] = "100 ms",
    plot_file: PlotOption = None,
    as_json: PrintJsonOption = False,
    force: ReplaceFileOption = False,
) -> None:
    """Show the contents of a recording of a link, and convert it.

    Reads traces and logs of Mahimahi, tables with a header line, two-column traces such as Pensieve's, rates
    of iperf (NYU-METS), logs of G-NetTrack Pro (Irish 4G and 5G), logs of downloads (Norway, Ghent).
    """
    with user_errors():
        from lasthop.link_trace import LinkTrace

        interval_s = _checked_targets(target, out, plot_file, interval, force=force)
        read = LinkTrace(file, direction)
        text = None if target is None else read.convert(target, interval_s)
        if text is not None and out is None:
            terminal.say(text, nl=False)
        elif as_json:
            terminal.say(json.dumps(read.summary, indent=1))
        else:
            terminal.print_content(read.table())
        if plot_file is not None:
            read.plot(plot_file)
            terminal.note(f"written: {plot_file}")
        lost = [] if target is None else read.left_out(target)
        if lost:
            terminal.note(f"note: {target} has no {' and no '.join(lost)}, which the file has")
        if out is not None and text is not None:
            files.write_text(out, text)
            terminal.note(f"written: {out}")


def from_capture(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A pcap or pcapng file.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write a scenario of the path, with comments: .toml."),
    ] = None,
    interface: Annotated[
        str | None,
        typer.Option(
            "--interface", metavar="NAME", help="Only this interface of a pcapng, by name or number."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all that was found as JSON.")] = False,
    force: ReplaceFileOption = False,
) -> None:
    """Estimate the path of a capture: rate, RTT, queue and loss, and write it as a scenario.

    The capture may be of either end or of the way between, with whole packets or their heads. What cannot be
    seen from there is named as such.
    """
    with user_errors():
        from lasthop.captured import Captured

        if out is not None:
            if out.suffix.lower() != ".toml":
                raise ArgumentError(f"cannot write '{out}': a scenario ends in .toml")
            files.check_file(out, replace=force)
        captured = Captured(file, interface)
        if as_json:
            terminal.say(json.dumps(captured.found, indent=1))
        else:
            terminal.print_content(captured.table())
        if out is not None:
            files.write_text(out, captured.scenario())
            terminal.note(f"written: {out}")


def _checked_targets(
    target: str | None, out: Path | None, plot_file: Path | None, interval: str, *, force: bool
) -> float:
    """Refuse what cannot be written before anything is read; return the interval in seconds."""
    from lasthop.link_trace import TARGETS

    if out is not None and target is None:
        raise ArgumentError(f"--out needs --to: {', '.join(TARGETS)}")
    if target is not None and target not in TARGETS:
        raise ArgumentError(f"unknown format {target!r}: use one of {', '.join(TARGETS)}")
    if plot_file is not None:
        from lasthop.drawing import check_names

        check_names([plot_file])
    for path in (out, plot_file):
        if path is not None:
            files.check_file(path, replace=force)
    return seconds_of("--interval", interval)


def seconds_of(option: str, text: str) -> float:
    """Return a length of time such as ``100 ms`` in seconds.

    Examples
    --------
    >>> seconds_of("--interval", "100 ms"), seconds_of("--interval", "2s")
    (0.1, 2.0)
    """
    number = text.strip().rstrip("musn ")
    unit = text.strip()[len(number) :].strip()
    try:
        value = float(number) * UNITS[unit]
    except (ValueError, KeyError):
        raise ArgumentError(f'{option} {text!r} is no time: write for example "100 ms"') from None
    if not 0 < value < 1e6:  # noqa: PLR2004 - as the longest run
        raise ArgumentError(f"{option} {text!r}: expected a time above 0 and below a million seconds")
    return value
