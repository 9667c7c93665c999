"""Senders written in Python: what a class needs, and how a scenario comes to know it.

`lasthop.api` calls `describe_all` for the classes that a user hands over; the engine calls their methods.
How to write one is told in docs/how-to/write-a-sender-in-python.md.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from lasthop import _native
from lasthop._native import Ack, AnyAck, Loss, Rate, Sender, Signal
from lasthop.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Ack", "AnyAck", "Loss", "Rate", "Sender", "Signal"]

#: Methods without which there is no law.
REQUIRED = ("on_ack", "on_loss")

#: Methods that a class may have.
OPTIONAL = (
    *("on_any_ack", "on_ecn", "on_idle", "on_rate", "on_signal", "on_start", "on_timeout"),
    "pacing_rate",
)


def describe_all(classes: Mapping[str, type[Sender]] | None) -> dict[str, _native.SenderClass]:
    """Return the description of each class, by the name that scenarios use for it."""
    return {name: describe(name, class_) for name, class_ in (classes or {}).items()}


def describe(name: str, class_: object) -> _native.SenderClass:
    """Return what the engine has to know about a class.

    Examples
    --------
    >>> class Fixed(Sender):
    ...     def on_ack(self, ack: Ack) -> None: ...
    >>> describe("fixed", Fixed)
    Traceback (most recent call last):
    lasthop.errors.ArgumentError: transport 'fixed': class Fixed has no method on_loss
    """
    if not (isinstance(class_, type) and issubclass(class_, Sender)):
        raise ArgumentError(
            f"transport {name!r} must be a class that inherits from lasthop.Sender, not {class_!r}"
        )
    shown = class_.__name__
    missing = [method for method in REQUIRED if not callable(getattr(class_, method, None))]
    if missing:
        raise ArgumentError(f"transport {name!r}: class {shown} has no method {missing[0]}")
    if any(vars(base).get("__slots__") for base in class_.__mro__):
        raise ArgumentError(
            f"transport {name!r}: class {shown} has __slots__, which copies would lose: leave them out"
        )
    methods = [method for method in OPTIONAL if callable(getattr(class_, method, None))]
    strange = [
        method
        for method in dir(class_)
        if method.startswith("on_") and method not in REQUIRED and method not in OPTIONAL
    ]
    if strange:
        known = ", ".join((*REQUIRED, *OPTIONAL))
        raise ArgumentError(
            f"transport {name!r}: nothing calls {shown}.{strange[0]}; the methods are {known}"
        )
    summary = (inspect.getdoc(class_) or shown).split("\n", maxsplit=1)[0].rstrip(".")
    try:
        return _native.SenderClass(
            name,
            class_,
            summary,
            getattr(class_, "recovery", None),
            methods,
            _parameters(name, class_),
            bool(getattr(class_, "classifies", False)),
        )
    except ValueError as error:
        raise ArgumentError(str(error)) from None


def _parameters(name: str, class_: type[Sender]) -> list[tuple[str, float]]:
    """Names and defaults of the constructor's parameters that a scenario can set: numbers and switches."""
    found = []
    if class_.__init__ is object.__init__:
        return []
    for parameter in list(inspect.signature(class_.__init__).parameters.values())[1:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            continue
        if parameter.default is parameter.empty:
            raise ArgumentError(
                f"transport {name!r}: parameter {parameter.name!r} of {class_.__name__} has no default: "
                "give it one"
            )
        if isinstance(parameter.default, (bool, int, float)):
            found.append((parameter.name, parameter.default))
    return found
