"""What `lasthop doctor` prints: versions, machine, means for real packets, a run that must repeat itself."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from dataclasses import dataclass

from lasthop import _native, extras, live, steer
from lasthop.api import run
from lasthop.errors import LasthopError
from lasthop.quantities import number_text
from lasthop.runner import available_cores
from lasthop.scenario import EXAMPLE, Scenario

DEPENDENCIES = ("rich", "typer")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `trouble` says what is wrong, if anything."""

    what: str
    text: str
    trouble: str = ""


def examine() -> list[Finding]:
    """Look at everything that matters for a bug report.

    Examples
    --------
    >>> [finding.what for finding in examine() if finding.trouble]
    []
    """
    findings = [
        _package_version(),
        Finding(
            "Python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
        ),
        Finding("system", f"{platform.platform()}, {platform.machine()}"),
        Finding("cores", f"{available_cores()} of {os.cpu_count()}"),
        Finding("terminal", _terminal()),
        Finding("native module", f"{_native.__version__}, {_native.__file__}"),
    ]
    findings += [_dependency(name) for name in DEPENDENCIES]
    findings += [_dependency(name, needed=False) for name in extras.EXTRAS]
    findings += _live()
    findings.append(_self_check())
    return findings


def _live() -> list[Finding]:
    """Say what real packets need; to lack it is no trouble, simulations do without."""
    lines = []
    for need in [*live.examine(), *steer.examine()]:
        text = f"{need.text}; {need.remedy}" if need.remedy else need.text
        lines.append(Finding(f"live: {need.what}", text))
    means = "'lasthop emulate' can run here" if not live.lacking() else "'lasthop emulate' cannot run here"
    steers = "'lasthop steer' can run here" if not steer.lacking() else "'lasthop steer' cannot run here"
    if not steer.lacking() and not live.lacking():
        try:
            steer.steer("reno", ["true"])
        except LasthopError as error:
            steers = f"'lasthop steer' cannot run here: {error}"
    return [*lines, Finding("live", f"{means}, {steers}")]


def _package_version() -> Finding:
    try:
        version = importlib.metadata.version("lasthop")
    except importlib.metadata.PackageNotFoundError:
        return Finding("lasthop", "not installed", "run 'pip install .' in the project's folder")
    trouble = ""
    if version != _native.__version__:
        trouble = f"the native module is {_native.__version__}: install lasthop again"
    return Finding("lasthop", version, trouble)


def _terminal() -> str:
    size = shutil.get_terminal_size()
    kind = os.environ.get("TERM", "unknown") if sys.stdout.isatty() else "no terminal"
    return f"{kind}, {size.columns}x{size.lines}, {sys.stdout.encoding}"


def _dependency(name: str, *, needed: bool = True) -> Finding:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if not needed:
            return Finding(name, f"not installed: {extras.lacking(name)}")
        return Finding(name, "missing", f"run 'pip install {name}'")
    try:
        __import__(name)
    except Exception as error:  # noqa: BLE001 - whatever breaks an import is what the report is for
        return Finding(name, version, f"cannot be imported: {error}")
    return Finding(name, version)


def _self_check() -> Finding:
    scenario = Scenario(EXAMPLE).replace({"duration": "1 s"})
    first, second = run(scenario), run(scenario)
    speed = first.packet_hops / first.wall_s / 1e6 if first.wall_s > 0 else 0.0
    text = (
        f"fingerprint {first.fingerprint}, {first.packet_hops:,} packet-hops in {first.wall_s * 1e3:.2g} ms "
        f"({number_text(speed, 3)} M/s)"
    )
    trouble = ""
    if first.fingerprint != second.fingerprint:
        trouble = f"the same run gave another fingerprint, {second.fingerprint}: please report this"
    elif not first.totals["goodput_bit_s"]:
        trouble = "nothing was delivered: please report this"
    return Finding("self-check", text, trouble)
