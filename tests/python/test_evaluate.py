"""`lasthop evaluate`: the 22 cases of BBRv3, the questions of RFC 9743, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lasthop import evaluate
from lasthop.bbr_verdicts import CASES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result


def test_the_cases_are_those_of_the_draft() -> None:
    assert sorted({case.number for case in CASES}) == list(range(1, 23))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number} {case.form}".strip())
def test_a_case_holds_or_differs_for_the_reason_that_it_gives(case: evaluate.Case) -> None:
    verdict = evaluate.run_case(case, "bbr3")
    assert case.outcome(verdict) == ("differs" if case.differs else "holds"), verdict.says


def test_a_sender_without_a_model_is_not_judged() -> None:
    with pytest.raises(evaluate.ArgumentError, match="tells no states"):
        evaluate.run_case(CASES[0], "cubic")


def test_the_page_and_the_data(command: Callable[..., Result], tmp_path: Path) -> None:
    page, data = tmp_path / "page.html", tmp_path / "data.json"
    done = command("evaluate", "bbr3", "--cases", "1,3", "--only-cases", "--html", page, "--json", data)
    assert done.exit_code == 0
    assert "holds    1 Startup ends" in done.stdout
    cases = json.loads(data.read_text())["cases"]
    assert [case["number"] for case in cases] == [1, 3]
    assert "http" not in page.read_text().split("<body>")[1]


def test_a_question_has_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [question for question in evaluate.QUESTIONS if question.title == "random loss of 1.00%"]
    monkeypatch.setattr(evaluate, "QUESTIONS", tuple(alone))
    ((_, answers),) = evaluate.ask_questions("bbr3", range(1, 4))
    goodput = answers[0]
    assert goodput.better, "CUBIC takes each loss for congestion"
    assert goodput.difference is not None
    assert goodput.difference.low > 0


def test_a_sender_in_python_is_asked(
    command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(evaluate, "QUESTIONS", evaluate.QUESTIONS[:1])
    (tmp_path / "mine.py").write_text(
        "import lasthop as lh\n\n\nclass Still(lh.Sender):\n    def on_ack(self, ack):\n        pass\n\n"
        "    def on_loss(self, loss):\n        pass\n"
    )
    done = command("evaluate", f"{tmp_path / 'mine.py'}:Still", "--seeds", "2", "--json", "-")
    assert done.exit_code == 0, done.stderr
    asked = json.loads(done.stdout)
    assert asked["cases"] == []
    goodput = asked["questions"][0]
    assert 0 < goodput["mean"] < goodput["rival"], "a window that never grows"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bbr4",), "there is no transport 'bbr4': did you mean 'bbr"),
        (("bbr3", "--cases", "1,x"), "--cases takes numbers, as 1,5,18, or 'none', not '1,x'"),
        (("bbr3", "--cases", "23"), "there is no case 23: they are 1 to 22"),
        (("cubic", "--only-cases"), "'cubic' tells no states, so that no case can be judged: give bbr3"),
    ],
)
def test_mistakes(command: Callable[..., Result], arguments: tuple[str, ...], says: str) -> None:
    done = command("evaluate", *arguments)
    assert done.exit_code == 2
    assert says in done.stderr
