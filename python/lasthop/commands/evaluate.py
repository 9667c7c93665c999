"""What a sender should answer before it is used: `evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lasthop import files
from lasthop.commands.deliver import hint, write_json
from lasthop.commands.options import ForceOption, JsonOption
from lasthop.errors import ArgumentError
from lasthop.terminal import EXIT_RUN, note, say, user_errors

if TYPE_CHECKING:
    from lasthop.evaluate import Answer, Evaluation, Question


def evaluate(
    sender: Annotated[
        str,
        typer.Argument(metavar="SENDER", help="Name of a transport, or FILE.py:CLASS.", show_default=False),
    ],
    cases: Annotated[
        str | None,
        typer.Option(
            "--cases",
            metavar="LIST",
            help="Only these cases of BBRv3, as 1,5,18; 'none' for questions alone.",
        ),
    ] = None,
    only_cases: Annotated[bool, typer.Option("--only-cases", help="Run the cases only.")] = False,
    seeds: Annotated[
        int, typer.Option("--seeds", min=2, max=100, metavar="N", help="Seeds of each question.")
    ] = 5,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a page that needs no network.")
    ] = None,
    json_file: JsonOption = None,
    force: ForceOption = False,
) -> None:
    """Evaluate a new sender by the questions of RFC 9743.

    Runs it alone, beside itself and beside others, with losses, outages, policers and short transfers, and
    shows the difference from CUBIC in its place with intervals. BBRv3 is first held against the 22 cases of
    its draft. Exits with 1 if a case fails; one that differs for a known reason is shown with it.
    """
    with user_errors():
        from lasthop import evaluate as evaluation

        for file in (html, json_file):
            if file not in (None, "-"):
                files.check_file(file, replace=force)
        _check_name(sender)
        numbers = _numbers(cases, sender)
        if only_cases and numbers == []:
            raise ArgumentError(f"{sender!r} tells no states, so that no case can be judged: give bbr3")
        asked = () if numbers == [] else evaluation.ask_cases(sender, numbers)
        for case, verdict in asked if json_file != "-" else ():
            form = f" ({case.form})" if case.form else ""
            say(f"{case.outcome(verdict):7} {case.number:2} {case.title}{form}: {verdict.says}")
            if case.outcome(verdict) == "differs":
                say(f"           because {case.differs}")
        numbered = range(1, seeds + 1)
        answers = () if only_cases else _answers(sender, numbered)
        found = evaluation.Evaluation(sender, tuple(numbered), asked, answers)
        if json_file != "-":
            _say_answers(found)
        if html is not None:
            files.write_text(html, evaluation.page(found))
            note(f"page: {html}")
        if json_file is not None:
            write_json(json_file, json.dumps(found.to_dict(), indent=2))
        if any(case.outcome(verdict) == "fails" for case, verdict in asked):
            raise typer.Exit(EXIT_RUN)


def _numbers(text: str | None, sender: str) -> list[int] | None:
    """Read which cases are wanted: `None` for all, none for a sender that cannot be judged."""
    from lasthop.evaluate import has_cases

    if text is None:
        return None if has_cases(sender) else []
    if text == "none":
        return []
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"--cases takes numbers, as 1,5,18, or 'none', not {text!r}") from None


def _check_name(sender: str) -> None:
    from lasthop import api, sources

    if sources.NAMED.fullmatch(sender):
        return
    known = [entry["name"] for entry in api.transports()]
    if sender not in known:
        raise ArgumentError(f"there is no transport {sender!r}: {hint(sender, known, 'lasthop transports')}")


def _answers(sender: str, seeds: range) -> tuple[tuple[Question, tuple[Answer, ...]], ...]:
    from lasthop import evaluate as evaluation
    from lasthop.progress import shown_count

    with shown_count("questions") as progress:

        def step(done: int) -> None:
            progress(done, len(evaluation.QUESTIONS), "")

        return evaluation.ask_questions(sender, seeds, step=step)


def _say_answers(found: Evaluation) -> None:
    from lasthop import evaluate as evaluation

    for question, answers in found.answers:
        say(f"{question.group}, {question.title}")
        for answer in answers:
            mean, rival, difference = evaluation.shown(answer)
            sign = {True: "+", False: "-", None: " "}[answer.better]
            say(
                f"  {sign} {answer.measure.name}: {mean}, {evaluation.RIVAL} {rival}; difference {difference}"
            )
