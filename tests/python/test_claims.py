"""Claims of papers: every formula parses and resolves; every operator, quantifier, function and verdict.

The data are made by hand, so that each expected outcome can be worked out on paper.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from lasthop.papers.decisions import Outcome, quantified
from lasthop.papers.evaluation import Finding, evaluate
from lasthop.papers.grammar import check, parse, series_in, show
from lasthop.papers.judge import MAIN, Verdict, judge
from lasthop.papers.library import Claim, Paper, PaperError, find_paper, load_paper, paper_folders
from lasthop.papers.measurement import Dataset
from lasthop.papers.reproduce import gather
from lasthop.stats import Estimate, jackknife, paired_difference

HOLDS, FAILS, UNDECIDED, MISSING = Outcome.HOLDS, Outcome.FAILS, Outcome.UNDECIDED, Outcome.MISSING

VOCABULARY = """
version = 1

[functions]
bdp_packets = "not computed for this paper"

[axes]
proto = ["reno", "vegas", "udp"]
env = ["wired", "wireless"]
n = "number"
limit = "number"
t = "number"

[defaults]
env = "wireless"
wireless = { limit = 30, handoffs = 5 }
wired = { limit = 150, handoffs = 0 }

[grids]
N = [1, 2, 4]
LIMITS = [20, 30, 50]
PROTOS = ["reno", "vegas", "udp"]

[series]
goodput = { unit = "Mbit/s", axes = ["proto", "env", "n", "limit"], means = "goodput" }
loss = { unit = "ratio", axes = ["proto", "n"], means = "losses" }
queue = { unit = "packets", axes = ["proto", "n", "t"], means = "queue against time" }
nowhere = { unit = "s", axes = ["proto", "n", "limit"], means = "never measured" }

[[experiment]]
id = "p900.fig1"
figure = "Fig. 1"
x = "n = N"
y = "goodput"
curves = ["reno", "vegas"]
fixed = { env = "wired" }

[[experiment]]
id = "p900.fig2"
figure = "Fig. 2"
x = "n = N"
y = "goodput"
curves = ["reno", "vegas"]
fixed = { env = "wireless" }

[[experiment]]
id = "p900.fig3"
figure = "Fig. 3"
x = "limit = LIMITS"
y = "goodput"
curves = ["reno", "vegas"]
fixed = { env = "wireless", n = 4, handoffs = 0 }

[[experiment]]
id = "p900.fig4"
figure = "Fig. 4"
x = "t"
y = "queue"
curves = ["reno"]
fixed = { n = 4 }
"""

CLAIM = """
[[claim]]
id = "p900.{name}"
experiment = {experiments}
figure = "Section 1"
text = "A statement."
kind = "{kind}"
predicate = "{predicate}"
tolerance = {{ rel = {rel}, abs = {absolute}, reason = "of the test" }}
strength = "headline"
outlook = "{outlook}"
basis = "stated"
"""

MANIFEST = """
subject = "a toy"

[alternatives.slow]
title = "at a lower rate"
set = { "flows.0.transport" = "vegas" }
experiments = ["fig1"]
"""

ALL_EXPERIMENTS = ("p900.fig1", "p900.fig2", "p900.fig3", "p900.fig4")


def toy(  # noqa: PLR0913 - the keys of a claim
    folder: Path,
    predicate: str = "1 < 2",
    *,
    kind: str = "ordering",
    rel: float = 0.0,
    absolute: float = 0.0,
    experiments: tuple[str, ...] = ALL_EXPERIMENTS,
    outlook: str = "likely",
    about: str | None = None,
) -> Paper:
    """Write and read a paper of one claim."""
    place = folder / "900-toy"
    place.mkdir(exist_ok=True)
    claim = CLAIM.format(
        name="claim",
        experiments=json.dumps(list(experiments)),
        kind=kind,
        predicate=predicate,
        rel=rel,
        absolute=absolute,
        outlook=outlook,
    )
    claim += f'about = "{about}"\n' if about else ""
    (place / "claims.toml").write_text(VOCABULARY + claim, encoding="utf-8")
    (place / "paper.toml").write_text(MANIFEST, encoding="utf-8")
    return load_paper(place)


class Toy:
    """A toy paper and its data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = Dataset(toy(folder).vocabulary)

    def add(self, series: str, values: list[float], **settings: str | float) -> None:
        """Add one value per seed; losses at the setting of the first figure, which claims here mean."""
        if series == "loss":
            settings = {"env": "wired"} | settings
        for seed, value in enumerate(values, start=1):
            self.data.add(series, settings, seed, value)

    def find(self, predicate: str, only: dict[str, list[float]] | None = None, **claim: Any) -> Finding:
        """Evaluate a formula."""
        paper = toy(self.folder, predicate, **claim)
        parsed = parse(predicate)
        check(parsed, paper.vocabulary)
        return evaluate(paper.claims[0], parsed, paper, self.data, only)

    def outcome(self, predicate: str, **claim: Any) -> Outcome:
        """Evaluate a formula for its outcome alone."""
        return self.find(predicate, **claim).outcome


@pytest.fixture
def paper(tmp_path: Path) -> Toy:
    """Make a toy paper whose goodput grows with n for reno, and is higher and steady for vegas."""
    made = Toy(tmp_path)
    for n, base in ((1, 1.0), (2, 2.0), (4, 3.0)):
        made.add("goodput", [base, base + 0.01, base - 0.01], proto="reno", env="wired", n=n)
        made.add("goodput", [4.0, 4.1, 3.9], proto="vegas", env="wired", n=n)
        made.add("loss", [0.1 * n, 0.1 * n + 0.001, 0.1 * n - 0.001], proto="reno", n=n)
    return made


# Every claim of every paper


@pytest.mark.parametrize("folder", paper_folders(), ids=lambda folder: folder.name)
def test_every_formula_parses_and_resolves(folder: Path) -> None:
    paper = load_paper(folder)
    for claim in paper.claims:
        predicate = parse(claim.predicate)
        check(predicate, paper.vocabulary)
        assert parse(show(predicate)) == predicate, claim.id


def test_all_claims_of_the_five_papers_are_there() -> None:
    papers = [load_paper(folder) for folder in paper_folders()]
    assert [paper.number for paper in papers] == ["000", "001", "002", "003", "004"]
    assert [len(paper.claims) for paper in papers] == [74, 45, 37, 50, 119]
    assert [len(paper.experiments) for paper in papers] == [26, 9, 12, 6, 40]
    headline = [claim for paper in papers for claim in paper.claims if claim.strength == "headline"]
    assert len(headline) == 70


@pytest.mark.parametrize("folder", paper_folders(), ids=lambda folder: folder.name)
def test_without_data_no_claim_is_decided_but_closed_forms(folder: Path) -> None:
    """Every series of every claim finds its settings: what is missing is the data, not a definition."""
    paper = load_paper(folder)
    for judgement in judge(paper, paper.claims, {MAIN: Dataset(paper.vocabulary)}):
        if any(series_in(parse(judgement.claim.predicate))):
            assert judgement.verdict is Verdict.NOT_TESTABLE, judgement.claim.id
            assert "no data of" in judgement.findings[MAIN].summary, judgement.claim.id
        else:
            assert judgement.verdict in {Verdict.REPRODUCED, Verdict.NOT_REPRODUCED}, judgement.claim.id


def test_rules_need_no_run() -> None:
    """Claims on rules that a paper states; one of them denies the paper's own."""
    wanted = {
        "p002.fig2.keep": Verdict.REPRODUCED,
        "p002.fig2.halve": Verdict.REPRODUCED,
        "p002.fig2.restart": Verdict.REPRODUCED,
        "p003.m2.inorder": Verdict.REPRODUCED,
        "p003.m2.gap": Verdict.REPRODUCED,
        "p003.m2.filled": Verdict.REPRODUCED,
        "p003.m1.nonnegative": Verdict.NOT_REPRODUCED,
    }
    for number in ("002", "003"):
        paper = load_paper(find_paper(number))
        claims = [claim for claim in paper.claims if claim.id in wanted]
        for one in judge(paper, claims, {MAIN: gather(paper, [], {})}):
            assert one.verdict is wanted.pop(one.claim.id), one.reason
    assert not wanted


def test_the_link_at_the_top_leads_to_the_papers() -> None:
    link = Path(__file__).resolve().parents[2] / "papers"
    assert link.resolve() == paper_folders()[0].parent.resolve()


def test_the_buffers_of_paper_004() -> None:
    paper = load_paper(find_paper("004"))
    claims = [claim for claim in paper.claims if claim.id.startswith("p004.setup.")]
    verdicts = {one.claim.id: one for one in judge(paper, claims, {MAIN: Dataset(paper.vocabulary)})}
    assert verdicts["p004.setup.buffer_wireless"].verdict is Verdict.REPRODUCED
    assert verdicts["p004.setup.buffer_wired"].verdict is Verdict.NOT_REPRODUCED
    assert verdicts["p004.setup.buffer_wired"].reason == ("bdp_packets(100,0.025,1000) (312.5) ~= 150: fails")


# Grammar


def test_a_quantifier_reaches_as_far_to_the_right_as_it_can() -> None:
    assert parse("all n in N: n < 1 or n > 2 and n < 3") == parse("all n in N: (n < 1 or (n > 2 and n < 3))")
    assert parse("(all n in N: n < 1) or 2 < 3") != parse("all n in N: n < 1 or 2 < 3")


def test_multiplication_binds_closer_and_minus_goes_left() -> None:
    assert parse("1-2-3*4 < 0") == parse("(1-2)-(3*4) < 0")
    assert parse("8/4/2 == 1") == parse("(8/4)/2 == 1")
    assert parse("-1 == 0-1") != parse("1 == 0-1")


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("goodput[reno", "bad formula 'goodput[reno': it ends too early"),
        ("all n in N goodput[reno] < 1", "not understood from column 12 on"),
        ("speed[reno] < 1", "unknown series 'speed': there are goodput, loss, queue, nowhere"),
        ("goodput[cubic] < 1", "'cubic' is no value of proto, which takes reno, vegas, udp"),
        ("goodput[reno,n=many] < 1", "'many' is no value of n, which takes a number"),
        ("loss[reno,limit=3] < 1", "loss has no axis 'limit', but proto, n"),
        ("goodput[reno,n=1,n=2] < 1", "an axis is given twice"),
        ("goodput[reno,vegas] < 1", "only the first entry may leave out its axis"),
        ("all n in M: goodput[reno,n=n] < 1", "unknown grid 'M': there are N, LIMITS, PROTOS"),
        ("jump(goodput[reno],n) < 1", "unknown function 'jump'"),
        ("gain(goodput[reno]) < 1", "gain takes 2 arguments, found 1"),
        ("drop(goodput[reno],speed) < 1", "unknown axis 'speed'"),
        ("n < 1", "'n' stands alone, but no quantifier gives it a value"),
    ],
)
def test_a_bad_formula_is_refused(tmp_path: Path, formula: str, message: str) -> None:
    with pytest.raises(PaperError) as refused:
        check(parse(formula), toy(tmp_path).vocabulary)
    assert message in str(refused.value)


# Statistics


def test_the_interval_of_a_difference_is_the_paired_one() -> None:
    a, b = [11.0, 22.0, 31.5, 44.0], [10.0, 20.0, 30.0, 40.0]
    without = [(sum(a) - a[i] - sum(b) + b[i]) / 3 for i in range(4)]
    ours, theirs = jackknife([(sum(a) - sum(b)) / 4, *without]), paired_difference(a, b)
    assert ours is not None
    assert theirs is not None
    assert (ours.mean, ours.low, ours.high) == pytest.approx((theirs.mean, theirs.low, theirs.high))


def test_jackknife_of_the_undefined_and_the_infinite() -> None:
    assert jackknife([1.0]) == Estimate(1.0, None, None, 1)
    assert jackknife([math.nan, 1.0, 2.0]) is None
    assert jackknife([1.0, math.inf, 2.0]) is None
    assert jackknife([math.inf, math.inf, math.inf]) == Estimate(math.inf, math.inf, math.inf, 2)


# Comparisons


@pytest.mark.parametrize(
    ("formula", "outcome"),
    [
        ("goodput[reno,env=wired,n=1] < goodput[vegas,env=wired,n=1]", HOLDS),
        ("goodput[reno,env=wired,n=1] > goodput[vegas,env=wired,n=1]", FAILS),
        ("goodput[reno,env=wired,n=1] <= goodput[vegas,env=wired,n=1]", HOLDS),
        ("goodput[reno,env=wired,n=1] >= goodput[vegas,env=wired,n=1]", FAILS),
        ("goodput[vegas,env=wired,n=1] > 4", UNDECIDED),
        ("goodput[vegas,env=wired,n=1] > goodput[vegas,env=wired,n=2]", Outcome.TIE),
        ("goodput[vegas,env=wired,n=1] >= goodput[vegas,env=wired,n=2]", HOLDS),
        ("goodput[reno,env=wired,n=1]+3 < goodput[vegas,env=wired,n=1]", UNDECIDED),
        ("goodput[vegas,env=wired,n=4]/goodput[reno,env=wired,n=4] > 1.2", HOLDS),
        ("2*goodput[reno,env=wired,n=1] == goodput[reno,env=wired,n=2]", FAILS),
        ("goodput[vegas,env=wired,n=1] == goodput[vegas,env=wired,n=2]", HOLDS),
        ("1 == 1", HOLDS),
        ("1 < 1", FAILS),
        ("1 <= 1", HOLDS),
        ("-1 < 0", HOLDS),
    ],
)
def test_comparisons(paper: Toy, formula: str, outcome: Outcome) -> None:
    assert paper.outcome(formula) is outcome


def test_a_tie_says_so_with_the_difference(paper: Toy) -> None:
    paper.add("loss", [0.1, 0.3, 0.2], proto="vegas", n=1)
    found = paper.find("loss[vegas,n=1] > loss[reno,n=1]")
    assert found.outcome is UNDECIDED
    assert found.summary == (
        "loss[vegas,n=1] 0.20 ± 0.25 > loss[reno,n=1] 0.1000 ± 0.0025: a tie, difference 0.10 ± 0.25"
    )


def test_paired_seeds_decide_what_separate_intervals_would_not(paper: Toy) -> None:
    paper.add("loss", [0.1, 0.5, 0.9], proto="udp", n=1)
    paper.add("loss", [0.11, 0.51, 0.911], proto="vegas", n=1)
    found = paper.find("loss[vegas,n=1] > loss[udp,n=1]")
    assert found.outcome is HOLDS
    (atom,) = found.atoms
    assert atom.left is not None
    assert atom.right is not None
    assert atom.left.low is not None
    assert atom.right.high is not None
    assert atom.left.low < atom.right.high


def test_only_seeds_that_both_sides_have_are_compared(paper: Toy) -> None:
    paper.add("loss", [0.2, 0.201, 0.199, 77.0], proto="udp", n=1)
    (atom,) = paper.find("loss[udp,n=1] > loss[reno,n=1]").atoms
    assert atom.left is not None
    assert (atom.left.mean, atom.left.n) == (pytest.approx(0.2), 3)
    paper.data.add("loss", {"proto": "vegas", "env": "wired", "n": 1}, 9, 0.5)
    found = paper.find("loss[vegas,n=1] > loss[reno,n=1]")
    assert found.outcome is MISSING
    assert "no seed has all of these series" in found.summary


def test_one_seed_decides_nothing(paper: Toy) -> None:
    paper.add("loss", [0.5], proto="udp", n=1)
    found = paper.find("loss[udp,n=1] > 0.1")
    assert found.outcome is UNDECIDED
    assert found.summary == "loss[udp,n=1] 0.5 > 0.1: undecided, one seed gives no interval"


@pytest.mark.parametrize(
    ("values", "outcome"),
    [([10.4, 10.5, 10.6], HOLDS), ([12.0, 12.1, 12.2], FAILS), ([10.8, 11.0, 11.1], UNDECIDED)],
)
def test_about_equal(paper: Toy, values: list[float], outcome: Outcome) -> None:
    """A tenth of 10 is allowed; an interval across 11 decides nothing."""
    paper.add("loss", values, proto="udp", n=1)
    assert paper.outcome("loss[udp,n=1] ~= 10", kind="number", rel=0.1) is outcome


def test_about_equal_takes_the_greater_of_both_tolerances(paper: Toy) -> None:
    paper.add("loss", [3.4, 3.5, 3.6], proto="udp", n=1)
    assert paper.outcome("loss[udp,n=1] ~= 3", rel=0.01, absolute=1.0) is HOLDS
    assert paper.outcome("loss[udp,n=1] ~= 3", rel=0.01, absolute=0.1) is FAILS
    assert paper.outcome("loss[udp,n=1] ~= 3", rel=0.5, absolute=0.1) is HOLDS


def test_much_greater_and_much_less(paper: Toy) -> None:
    paper.add("loss", [1.19, 1.2, 1.21], proto="udp", n=1)
    paper.add("loss", [1.0, 1.0, 1.0], proto="vegas", n=1)
    assert paper.outcome("loss[udp,n=1] >> loss[vegas,n=1]", rel=0.1) is HOLDS
    assert paper.outcome("loss[udp,n=1] >> loss[vegas,n=1]", rel=0.3) is FAILS
    assert paper.outcome("loss[udp,n=1] >> loss[vegas,n=1]", rel=0.2) is UNDECIDED
    assert paper.outcome("loss[vegas,n=1] << loss[udp,n=1]", rel=0.1) is HOLDS
    assert paper.outcome("loss[vegas,n=1] << loss[udp,n=1]", rel=0.3) is FAILS


def test_only_a_bound_has_slack(paper: Toy) -> None:
    paper.add("loss", [0.93, 0.94, 0.95], proto="udp", n=1)
    assert paper.outcome("loss[udp,n=1] <= 0.9", kind="bound", absolute=0.1) is HOLDS
    assert paper.outcome("loss[udp,n=1] >= 0.99", kind="bound", absolute=0.1) is HOLDS
    assert paper.outcome("loss[udp,n=1] <= 0.9", kind="ordering", absolute=0.1) is FAILS
    assert paper.outcome("loss[udp,n=1] < 0.9", kind="bound", absolute=0.1) is FAILS


def test_a_division_by_zero_decides_nothing(paper: Toy) -> None:
    paper.add("loss", [0.0, 0.0, 0.0], proto="udp", n=1)
    found = paper.find("loss[udp,n=1]/loss[udp,n=1] > 1")
    assert found.outcome is UNDECIDED
    assert found.summary.endswith("undefined, a division by zero")
    paper.add("loss", [0.1, 0.2, 0.3], proto="udp", n=2)
    assert paper.outcome("loss[udp,n=2]/loss[udp,n=1] > 1") is HOLDS


# Logic


@pytest.mark.parametrize(
    ("formula", "outcome"),
    [
        ("1 < 2 and 2 < 3", HOLDS),
        ("1 < 2 and 3 < 2", FAILS),
        ("1 < 2 or 3 < 2", HOLDS),
        ("2 < 1 or 3 < 2", FAILS),
        ("not 2 < 1", HOLDS),
        ("not (1 < 2 and 2 < 3)", FAILS),
        ("2 < 1 and 1 < 2 or 1 < 2", HOLDS),
        ("TIE and 1 < 2", UNDECIDED),
        ("TIE and 2 < 1", FAILS),
        ("TIE or 1 < 2", HOLDS),
        ("TIE or 2 < 1", UNDECIDED),
        ("not TIE", UNDECIDED),
        ("NONE and 1 < 2", MISSING),
        ("NONE and 2 < 1", FAILS),
        ("NONE or 1 < 2", HOLDS),
        ("NONE or TIE", MISSING),
    ],
)
def test_three_valued_logic(paper: Toy, formula: str, outcome: Outcome) -> None:
    tie = "goodput[vegas,env=wired,n=1] > 4"
    formula = formula.replace("TIE", tie).replace("NONE", "nowhere[reno,n=1] > 0")
    assert paper.outcome(formula) is outcome


@pytest.mark.parametrize(
    ("quantifier", "outcomes", "outcome"),
    [
        ("all", [HOLDS, HOLDS], HOLDS),
        ("all", [HOLDS, UNDECIDED], UNDECIDED),
        ("all", [FAILS, UNDECIDED], FAILS),
        ("some", [FAILS, HOLDS, UNDECIDED], HOLDS),
        ("some", [FAILS, FAILS], FAILS),
        ("some", [FAILS, UNDECIDED], UNDECIDED),
        ("none", [FAILS, FAILS], HOLDS),
        ("none", [FAILS, HOLDS], FAILS),
        ("none", [FAILS, UNDECIDED], UNDECIDED),
        ("most", [HOLDS, HOLDS, FAILS], HOLDS),
        ("most", [HOLDS, FAILS], FAILS),
        ("most", [HOLDS, HOLDS, UNDECIDED, FAILS], UNDECIDED),
        ("most", [HOLDS, HOLDS, HOLDS, UNDECIDED, UNDECIDED], HOLDS),
        ("most", [FAILS, FAILS, UNDECIDED, HOLDS], FAILS),
        ("most", [HOLDS, MISSING, UNDECIDED], MISSING),
    ],
)
def test_quantifiers(quantifier: str, outcomes: list[Outcome], outcome: Outcome) -> None:
    assert quantified(quantifier, outcomes) is outcome


def test_a_quantifier_takes_grids_sets_and_several_names(paper: Toy) -> None:
    all_of = "all p in {reno}, n in N: goodput[p,env=wired,n=n] < goodput[vegas,env=wired,n=n]"
    assert paper.outcome(all_of) is HOLDS
    assert paper.outcome("most n in {2,4}: goodput[reno,env=wired,n=n] > 2.5") is FAILS
    assert paper.outcome("some n in {2,4}: goodput[reno,env=wired,n=n] > 2.5") is HOLDS
    assert paper.outcome("none n in N: goodput[reno,env=wired,n=n] > 3.5") is HOLDS
    assert paper.outcome("all n in N: goodput[reno,env=wired,n=n]/n > 0.5") is HOLDS
    nested = "all n in {1,2}: loss[reno,n=n] < 0.3 and (some m in {4}: loss[reno,n=m] > loss[reno,n=n])"
    assert paper.outcome(nested) is HOLDS


def test_a_claim_about_losses_says_nothing_where_there_are_none(paper: Toy) -> None:
    of_both = "all p in {reno,vegas}, n in {1,2}: loss[p,n=n] > 0.05"
    assert paper.outcome(of_both) is MISSING
    found = paper.find(of_both, about="losses")
    assert found.outcome is HOLDS
    assert found.summary.endswith("; 2 more have no losses")
    assert paper.outcome("all n in {1,2}: loss[vegas,n=n] > 0.05", about="losses") is MISSING
    fails = paper.find("all p in {reno,vegas}, n in {1,2,4}: loss[p,n=n] > 0.15", about="losses")
    assert fails.outcome is FAILS
    assert fails.summary.endswith("loss[reno,n=4] 0.4000 ± 0.0025 > 0.15: holds; 3 more have no losses")


def test_constants_are_worked_out(paper: Toy) -> None:
    found = paper.find("goodput[vegas,env=wired,n=1] > 0.9*2")
    assert found.summary == "goodput[vegas,env=wired,n=1] 4.00 ± 0.25 > 0.9*2 (1.8): holds"


def test_many_combinations_are_condensed_to_the_worst(paper: Toy) -> None:
    found = paper.find("all p in {reno,vegas}, n in N: goodput[p,env=wired,n=n] > 2.5")
    assert found.outcome is FAILS
    assert found.summary == (
        "4 of 6 hold, 2 fail; worst: goodput[reno,env=wired,n=1] 1.000 ± 0.025 > 2.5: fails"
    )
    assert len(found.atoms) == 6
    some = paper.find("some p in {reno,vegas}, n in N: goodput[p,env=wired,n=n] > 2.5")
    assert some.summary.startswith("4 of 6 hold, 2 fail; best: goodput[vegas,env=wired,n=1] 4.00 ± 0.25")


def test_a_quick_look_confines_quantifiers_and_curves(paper: Toy) -> None:
    only = {"n": [1, 4]}
    found = paper.find("all n in N: goodput[reno,env=wired,n=n] < 5", only=only)
    assert len(found.atoms) == 2
    assert "over n 1, 4" in paper.find("rising(goodput[reno,env=wired],n)", only=only).summary


# Functions


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("mean(goodput[reno,env=wired])", 2.0),
        ("median(goodput[reno,env=wired])", 2.0),
        ("max(goodput[reno,env=wired])", 3.0),
        ("min(goodput[reno,env=wired])", 1.0),
        ("first(goodput[reno,env=wired])", 1.0),
        ("last(goodput[reno,env=wired])", 3.0),
        ("sum(goodput[reno,env=wired])", 6.0),
        ("std(goodput[reno,env=wired])", math.sqrt(2 / 3)),
        ("cv(goodput[reno,env=wired])", math.sqrt(2 / 3) / 2),
        ("spread(goodput[reno,env=wired])", 1.0),
        ("drop(goodput[reno,env=wired],n)", -2.0),
        ("rise(goodput[reno,env=wired],n)", 2.0),
        ("rank_corr(goodput[reno,env=wired],loss[reno],n)", 1.0),
        ("rank_corr(goodput[reno,env=wired],0-loss[reno],n)", -1.0),
        ("gain(goodput[reno,env=wired,n=4],goodput[reno,env=wired,n=2])", 0.5),
        ("max(gain(goodput[vegas,env=wired],goodput[reno,env=wired]))", 3.0),
        ("abs(goodput[reno,env=wired,n=1]-goodput[reno,env=wired,n=4])", 2.0),
        ("sqrt(goodput[vegas,env=wired,n=1])", 2.0),
    ],
)
def test_functions(paper: Toy, quantity: str, value: float) -> None:
    (atom,) = paper.find(f"{quantity} < 100").atoms
    assert atom.left is not None
    assert atom.left.mean == pytest.approx(value)


@pytest.mark.parametrize(
    ("quantity", "shown"),
    [
        ("gain(goodput[reno,env=wired,n=4],goodput[reno,env=wired,n=2])", "+50"),
        ("max(gain(goodput[vegas,env=wired],goodput[reno,env=wired]))", "+300"),
        ("mean(gain(goodput[vegas,env=wired],goodput[reno,env=wired]))", "+144"),
        ("abs(gain(goodput[reno,env=wired,n=2],goodput[reno,env=wired,n=4]))", "+33"),
        # A quantity with a unit is compared with what it should be.
        ("max(goodput[reno,env=wired])", "+200"),
    ],
)
def test_the_effect_of_a_share_is_the_share_and_not_what_it_is_of_the_number_beside_it(
    paper: Toy, quantity: str, shown: str
) -> None:
    """A gain of 13 % is not 30 % of the 10 % that a paper prints."""
    number = "1" if quantity.startswith("max(goodput") else "0.10"
    (atom,) = paper.find(f"{quantity} ~= {number}").atoms
    assert str(atom.effect).startswith(shown)


def test_a_function_that_is_not_computed_makes_a_claim_not_testable(paper: Toy) -> None:
    found = paper.find("bdp_packets(10,0.025,1000) ~= 30")
    assert found.outcome is MISSING
    assert found.summary == "bdp_packets(10,0.025,1000) ~= 30: bdp_packets() is not computed by lasthop yet"


def test_samples_are_aggregated_seed_by_seed(paper: Toy) -> None:
    """Two seeds that swing in opposite ways: their average would not swing at all."""
    for seed, samples in ((1, [0.0, 10.0] * 4), (2, [10.0, 0.0] * 4), (3, [0.0, 10.0] * 4)):
        paper.data.add("queue", {"proto": "reno", "n": 4}, seed, samples)
        paper.data.add("queue", {"proto": "udp", "n": 4}, seed, [5.0] * 8)
    assert paper.outcome("cv(queue[udp,n=4]) < cv(queue[reno,n=4])") is HOLDS
    (atom,) = paper.find("cv(queue[reno,n=4]) ~= 1").atoms
    assert atom.left is not None
    assert atom.left.mean == pytest.approx(1.0)
    with pytest.raises(PaperError, match="is a curve; compare an aggregate of it"):
        paper.find("queue[reno,n=4] > 1")


# Trends


@pytest.mark.parametrize(
    ("curve", "tolerance", "rising", "falling", "flat"),
    [
        ([1.0, 2.0, 3.0], 0.0, HOLDS, FAILS, FAILS),
        ([3.0, 2.0, 1.0], 0.0, FAILS, HOLDS, FAILS),
        ([1.0, 3.0, 2.0], 0.0, FAILS, FAILS, FAILS),
        ([1.0, 2.05, 2.0], 0.05, HOLDS, FAILS, FAILS),
        ([2.0, 2.0, 2.01], 0.0, HOLDS, FAILS, HOLDS),
        ([2.0, 2.0, 2.0], 0.0, Outcome.TIE, Outcome.TIE, HOLDS),
        ([2.0, 2.1, 2.2], 0.2, HOLDS, FAILS, HOLDS),
    ],
)
def test_trends(
    paper: Toy, curve: list[float], tolerance: float, rising: Outcome, falling: Outcome, flat: Outcome
) -> None:
    for limit, value in zip((20, 30, 50), curve, strict=True):
        # Seeds far apart that move together: the pairing must take that out.
        values = [value, value + 1e-6, value - 1e-6] if value != 2.0 else [2.0] * 3
        paper.add("goodput", values, proto="udp", env="wireless", n=4, limit=limit, handoffs=0)
    for word, outcome in (("rising", rising), ("falling", falling), ("flat", flat)):
        assert paper.outcome(f"{word}(goodput[udp],limit)", rel=tolerance, kind="trend") is outcome, word


def test_a_step_back_that_the_seeds_do_not_show_is_undecided(paper: Toy) -> None:
    for limit, values in ((20, [1.0, 1.0, 1.0]), (30, [3.0, 2.6, 2.8]), (50, [2.5, 2.8, 2.6])):
        paper.add("goodput", values, proto="udp", env="wireless", n=4, limit=limit, handoffs=0)
    found = paper.find("rising(goodput[udp],limit)", kind="trend")
    assert found.outcome is UNDECIDED
    assert found.summary == (
        "rising(goodput[udp],limit) is 1, 2.8, 2.633 over limit 20, 30, 50: "
        "undecided, an interval straddles the limit"
    )


# Which data are meant


def test_the_x_axis_runs_only_under_an_aggregate_or_a_trend(paper: Toy) -> None:
    """In Fig. 3, n is fixed at 4; elsewhere a bracket without n says nothing."""
    paper.add("goodput", [7.0, 7.0, 7.0], proto="reno", env="wireless", n=4, handoffs=0)
    assert paper.outcome("goodput[reno,env=wireless,limit=30] == 7", experiments=("p900.fig3",)) is HOLDS
    found = paper.find("goodput[reno,env=wired] > 1", experiments=("p900.fig1",))
    assert found.outcome is MISSING
    assert found.summary.endswith("goodput[reno,env=wired] is said of no n")


def test_defaults_depend_on_other_settings(paper: Toy) -> None:
    """Wired runs have room for 150 packets and no handoffs, wireless ones 30 and five."""
    settings: dict[str, str | float] = {"proto": "udp", "n": 1}
    for env, limit, handoffs, value in (
        ("wired", 150, 0, 1.0),
        ("wireless", 30, 5, 2.0),
        ("wireless", 30, 0, 3.0),
    ):
        for seed in (1, 2):
            full = settings | {"env": env, "limit": limit, "handoffs": handoffs}
            paper.data.add("goodput", full, seed, value)
    assert paper.outcome("goodput[udp,env=wired,n=1] == 1") is HOLDS
    assert paper.outcome("goodput[udp,n=1] == 2", experiments=("p900.fig2",)) is HOLDS
    assert paper.outcome("goodput[udp,n=1,limit=30] == 3", experiments=("p900.fig3",)) is HOLDS


def test_the_experiment_that_contradicts_nothing_is_meant(paper: Toy) -> None:
    """A claim on both topologies takes each series from the figure of its topology."""
    for n in (1, 2, 4):
        paper.add("goodput", [0.5, 0.5, 0.5], proto="reno", env="wireless", n=n)
    formula = "mean(goodput[reno,env=wired]) > mean(goodput[reno,env=wireless])"
    found = paper.find(formula, experiments=("p900.fig1", "p900.fig2"))
    assert found.outcome is HOLDS
    assert [atom.right.mean for atom in found.atoms if atom.right] == [0.5]


def test_a_missing_point_is_named(paper: Toy) -> None:
    paper.add("goodput", [1.0, 1.0], proto="udp", env="wired", n=1)
    found = paper.find("mean(goodput[udp,env=wired]) > 0")
    assert found.outcome is MISSING
    assert found.summary == "mean(goodput[udp,env=wired]) > 0: no data of goodput[udp,env=wired] at n 2"


# Verdicts


@pytest.mark.parametrize(
    ("formula", "verdict"),
    [
        ("goodput[reno,env=wired,n=1] < 2", Verdict.REPRODUCED),
        ("goodput[reno,env=wired,n=1] > 2", Verdict.NOT_REPRODUCED),
        ("goodput[vegas,env=wired,n=1] > 4", Verdict.INCONCLUSIVE),
        ("nowhere[reno,n=1] > 4", Verdict.NOT_TESTABLE),
    ],
)
@pytest.mark.parametrize("outlook", ["likely", "doubtful"])
def test_verdicts(paper: Toy, formula: str, verdict: Verdict, outlook: str) -> None:
    """The forecast plays no part."""
    read = toy(paper.folder, formula, outlook=outlook)
    (judgement,) = judge(read, read.claims, {MAIN: paper.data})
    assert judgement.verdict is verdict
    assert not hasattr(read.claims[0], "outlook")


def test_a_claim_that_hangs_on_an_open_setting_is_conditional(paper: Toy) -> None:
    read = toy(paper.folder, "goodput[reno,env=wired,n=1] < 2", experiments=("p900.fig1",))
    slow = Dataset(read.vocabulary)
    for seed in (1, 2, 3):
        slow.add("goodput", {"proto": "reno", "env": "wired", "n": 1}, seed, 5.0)
    (judgement,) = judge(read, read.claims, {MAIN: paper.data, "slow": paper.data.updated(slow)})
    assert judgement.verdict is Verdict.CONDITIONAL
    assert judgement.reason == (
        "holds at main; fails at slow. goodput[reno,env=wired,n=1] 1.000 ± 0.025 < 2: holds"
    )
    written = json.loads(json.dumps(judgement.to_dict(), allow_nan=False))
    assert written["settings"]["slow"]["comparisons"][0]["outcome"] == "fails"


def test_an_alternative_concerns_only_its_experiments(paper: Toy) -> None:
    read = toy(paper.folder, "goodput[reno,env=wired,n=1] < 2", experiments=("p900.fig2",))
    (judgement,) = judge(read, read.claims, {MAIN: paper.data, "slow": Dataset(read.vocabulary)})
    assert list(judgement.findings) == [MAIN]


def test_an_undecided_claim_stays_so_whatever_holds_elsewhere(paper: Toy) -> None:
    read = toy(paper.folder, "goodput[vegas,env=wired,n=1] > 4", experiments=("p900.fig1",))
    slow = Dataset(read.vocabulary)
    for seed in (1, 2, 3):
        slow.add("goodput", {"proto": "vegas", "env": "wired", "n": 1}, seed, 5.0)
    (judgement,) = judge(read, read.claims, {MAIN: paper.data, "slow": slow})
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.reason.endswith("straddles the limit. At other settings: holds at slow")
    (judgement,) = judge(read, read.claims, {MAIN: paper.data, "slow": paper.data})
    assert judgement.reason.endswith("straddles the limit. The same at every other setting run (1)")


# The folder of a paper


def test_a_paper_is_found_by_number_name_or_path(tmp_path: Path) -> None:
    assert find_paper("004") == find_paper("p004") == find_paper("004-real-time-qos")
    made = toy(tmp_path)
    assert find_paper(str(made.folder)) == made.folder
    assert made.number == "900"
    with pytest.raises(Exception, match="unknown paper '7': there are 000-local-error-control, 001-"):
        find_paper("7")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("paper.toml", "", "'subject' is missing"),
        ("paper.toml", 'subject = "a"\nspeed = 1', "unknown key 'speed'; known are subject, title"),
        ("paper.toml", 'subject = "a"\n[series]\nspeed = "a"', "series.speed is no series of claims.toml"),
        ("paper.toml", 'subject = "a"\n[experiments.fig9]', "experiments.fig9 is no experiment"),
        ("paper.toml", 'subject = "a"\n[quick]\nruns = 1', "quick: unknown key 'runs'"),
        ("paper.toml", "subject = ", "paper.toml:1:11"),
        ("claims.toml", "version = 2", "version must be 1, found 2"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path: Path, file: str, text: str, message: str) -> None:
    folder = toy(tmp_path).folder
    (folder / file).write_text(text, encoding="utf-8")
    with pytest.raises(PaperError) as refused:
        load_paper(folder)
    assert message in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_an_experiment_may_have_several_studies(tmp_path: Path) -> None:
    folder = toy(tmp_path).folder
    studies = 'study = ["a", { file = "b", fixed = { n = 4 } }]'
    (folder / "paper.toml").write_text(f'subject = "a"\n[experiments.fig1]\n{studies}', encoding="utf-8")
    paper = load_paper(folder)
    assert paper.experiments["p900.fig1"].studies == {"a": {}, "b": {"n": 4}}
    assert paper.experiments["p900.fig2"].studies == {"fig2": {}}


def test_claims_name_experiments_that_exist(tmp_path: Path) -> None:
    with pytest.raises(PaperError, match=r"p900.claim names p900.fig9, which is no experiment"):
        toy(tmp_path, experiments=("p900.fig9",))


def test_a_claim_has_what_a_reader_needs() -> None:
    for folder in paper_folders():
        for claim in load_paper(folder).claims:
            assert isinstance(claim, Claim)
            assert claim.text.endswith((".", "!"))
            assert claim.tolerance.reason
