"""Lists of what there is: `transports`, `helpers`, `metrics` and `schema`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lasthop import api
from lasthop.commands.deliver import hint
from lasthop.commands.options import PrintJsonOption, complete_helpers, complete_transports
from lasthop.errors import ArgumentError
from lasthop.terminal import print_content, say, user_errors


def transports(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Show the parameters of this one.", autocompletion=complete_transports
        ),
    ] = None,
    as_json: PrintJsonOption = False,
) -> None:
    """List transports, congestion controllers and loss recoveries with their parameters."""
    with user_errors():
        from lasthop import catalogue

        listed = api.transports()
        if name is not None:
            listed = [one for one in listed if one["name"] == name] or _refuse_transport(name, listed)
        if as_json:
            say(json.dumps(listed, indent=1))
        elif name is None:
            print_content(catalogue.transports_table(listed))
        else:
            preset = next((one for one in listed if one["kind"] == "preset"), None)
            for one in listed:
                # A preset that is called like its law shows the law's parameters: once is enough.
                if one["kind"] == "controller" and preset is not None and preset["controller"] == name:
                    continue
                print_content(catalogue.transport_table(one))


def helpers(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Show the keys of this one.", autocompletion=complete_helpers),
    ] = None,
    as_json: PrintJsonOption = False,
) -> None:
    """List helpers in the network (PEPs): what each does, where it may be placed, its keys."""
    with user_errors():
        from lasthop import catalogue

        listed = api.helpers()
        if name is not None:
            known = [one["name"] for one in listed]
            listed = [one for one in listed if one["name"] == name]
            if not listed:
                raise ArgumentError(f"unknown helper {name!r}: {hint(name, known, 'lasthop helpers')}")
        if as_json:
            say(json.dumps(listed, indent=1))
        elif name is None:
            print_content(catalogue.helpers_table(listed))
        else:
            print_content(catalogue.helper_table(listed[0]))


def list_metrics(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only metrics with this in their name.")
    ] = None,
    as_json: PrintJsonOption = False,
) -> None:
    """List metrics: names for studies, --metric and --until."""
    with user_errors():
        from lasthop import catalogue

        listed = [one for one in api.metrics() if name is None or name in one["name"]]
        if not listed:
            raise ArgumentError(f"no metric has {name!r} in its name: 'lasthop metrics' lists all")
        if as_json:
            say(json.dumps(listed, indent=1))
        else:
            print_content(catalogue.metrics_table(listed))


def schema() -> None:
    """Print the JSON schema of scenario files, for editors."""
    say(json.dumps(api.schema(), indent=2))


def _refuse_transport(name: str, listed: list[dict[str, object]]) -> list[dict[str, object]]:
    names = [str(one["name"]) for one in listed]
    raise ArgumentError(f"unknown transport {name!r}: {hint(name, names, 'lasthop transports')}")
