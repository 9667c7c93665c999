"""Senders written in Python: the same results as built-in ones; mistakes end the run and say where."""
# ruff: noqa: ARG002, D102, FBT002, ISC004, TC001 - the classes here stand for those of users

from __future__ import annotations

import copy
import runpy
import threading
import traceback
from pathlib import Path

import pytest

import lasthop as lh
from lasthop.senders import Ack, AnyAck, Loss, Rate

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "reno_in_python.py"
Reno: type[lh.Sender] = runpy.run_path(str(EXAMPLE))["Reno"]


def one_flow(transport: object, **more: object) -> dict[str, object]:
    return lh.EXAMPLE | {"flows": [{"name": "flow", "transport": transport}]} | more


def figures(run: lh.Run) -> dict[str, object]:
    """Everything that a run measured but for its wall-clock time and the names of transports."""
    record = copy.deepcopy(run.record)
    for key in ("wall_s", "set_up_s"):
        record.pop(key, None)
    for flow in record["flows"]:
        del flow["transport"]
    return record


@pytest.mark.parametrize("recovery", ["tahoe", "reno", "newreno", "sack", "sack1"])
@pytest.mark.parametrize("profile", ["rfc", "ns2", "linux"])
def test_reno_in_python_is_reno(recovery: str, profile: str) -> None:
    tcp = {"profile": profile}
    # The `linux` profile counts bytes, which is not part of the example.
    plain = {"cc": "reno", "recovery": recovery, "byte_counting": False, "slow_start_limit": 1}
    built_in = lh.run(one_flow(plain, tcp=tcp), seed=3, trace=True)
    written = lh.run(
        one_flow({"cc": "mine", "recovery": recovery}, tcp=tcp),
        seed=3,
        trace=True,
        transports={"mine": Reno},
    )
    assert figures(written) == figures(built_in)
    assert written.windows.equals(built_in.windows)
    assert written.flows["transport"].to_list() == [f"mine/{recovery}"]


class Remembering(Reno):
    """Keeps state that a copy must have as its own."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def on_loss(self, loss: Loss) -> None:
        assert self.losses == sorted(self.losses)
        self.losses.append(loss.now_s)
        super().on_loss(loss)


def test_the_linux_profile_copies_the_object() -> None:
    spikes = {"handoff": {"count": 5, "outage": "400 ms", "policy": "hold"}}
    content = one_flow({"cc": "mine", "recovery": "sack"}, tcp={"profile": "linux"}, channel=spikes)
    plain = {"cc": "reno", "recovery": "sack", "byte_counting": False, "slow_start_limit": 1}
    same = one_flow(plain, tcp={"profile": "linux"}, channel=spikes)
    assert figures(lh.run(content, transports={"mine": Remembering})) == figures(lh.run(same))


class Uncopied(Reno):
    """Holds what cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_what_cannot_be_copied_ends_a_run_that_has_to() -> None:
    content = one_flow({"cc": "mine", "recovery": "sack"}, tcp={"profile": "linux"})
    with pytest.raises(lh.RunError, match=r"Uncopied.__deepcopy__ raised TypeError"):
        lh.run(content, transports={"mine": Uncopied})


class Slotted(Reno):
    """Would lose its state in a copy."""

    __slots__ = ("state",)


def test_a_class_names_its_recovery() -> None:
    written = lh.run(one_flow("mine"), transports={"mine": Reno})
    assert written.fingerprint == lh.run(one_flow("reno")).fingerprint


def test_marks_reduce_like_losses() -> None:
    links = {"topology": lh.EXAMPLE["topology"] | {"access": {"rate": "4 Mbit/s", "delay": "5 ms"}}}
    tcp = {"ecn": True}
    written = lh.run(one_flow("mine", tcp=tcp, **links), transports={"mine": Reno})
    assert written.fingerprint == lh.run(one_flow("reno", tcp=tcp, **links)).fingerprint


def test_parameters_of_the_constructor_are_keys() -> None:
    for alpha in (0.5, 2.0):
        own = {"cc": "mine", "recovery": "sack", "alpha": alpha}
        same = {"cc": "reno", "recovery": "sack", "alpha": alpha}
        written = lh.run(one_flow(own), transports={"mine": Reno})
        assert written.fingerprint == lh.run(one_flow(same)).fingerprint


class Shapes(Reno):
    """Takes one parameter of each kind."""

    seen: list[tuple[object, object, object]] = []  # noqa: RUF012 - a test looks at it

    def __init__(self, real: float = 1.0, whole: int = 3, switch: bool = False, other: str = "") -> None:
        super().__init__()
        Shapes.seen.append((real, whole, switch))


def test_parameters_keep_their_kinds() -> None:
    lh.run(one_flow({"cc": "mine", "whole": 4, "switch": True, "real": 2}), transports={"mine": Shapes})
    assert Shapes.seen == [(2.0, 4, True)]
    assert [type(value) for value in Shapes.seen[0]] == [float, int, bool]
    with pytest.raises(
        lh.RunError, match=r"Shapes.__init__ raised TypeError: whole must be a whole number, not 4.5"
    ):
        lh.run(one_flow({"cc": "mine", "whole": 4.5}), transports={"mine": Shapes})
    with pytest.raises(lh.ScenarioError, match='unknown key "other"'):
        lh.run(one_flow({"cc": "mine", "other": "text"}), transports={"mine": Shapes})


def test_seeds_run_as_if_alone() -> None:
    scenario = lh.Scenario(one_flow("mine"), transports={"mine": Reno})
    together = lh.run_seeds(scenario, range(4), jobs=4)
    assert [run.fingerprint for run in together] == [
        lh.run(scenario, seed=seed).fingerprint for seed in range(4)
    ]


def test_compare_takes_them_by_name() -> None:
    scenario = lh.Scenario(lh.EXAMPLE).with_transports({"mine": Reno})
    result = lh.compare(scenario, ["reno", "mine"], seeds=range(1, 4))
    assert "an exact tie between mine and reno in goodput" in result.verdicts


class Watcher(Reno):
    """Has every method there is."""

    classifies = True
    met: set[str] = set()  # noqa: RUF012 - a test looks at it

    def on_start(self) -> None:
        self.met.add("start")

    def on_any_ack(self, ack: AnyAck) -> None:
        assert ack.ack >= ack.una and ack.mss > 0 and ack.next >= ack.una  # noqa: PT018 - one thought
        self.met.add("any ack")

    def on_rate(self, rate: Rate) -> None:
        assert rate.delivered >= rate.prior_delivered
        self.met.add("rate")

    def on_loss(self, loss: Loss) -> str:  # type: ignore[override]
        self.ssthresh = self.cwnd = loss.flight / 2
        self.met.add("loss")
        return "wireless"

    def on_idle(self, idle_s: float) -> None:
        assert idle_s > 0
        self.met.add("idle")

    def pacing_rate(self) -> float | None:
        self.met.add("pacing")
        return None


def test_every_method_is_called() -> None:
    pauses = {"kind": "paced-ftp", "write": "100000 B", "interval": "2 s"}
    content = one_flow("mine", channel={"error": {"kind": "bernoulli", "packet_error_rate": 0.03}})
    content["flows"][0]["traffic"] = pauses  # type: ignore[index]
    lh.run(content, transports={"mine": Watcher})
    assert {"start", "any ack", "loss", "idle"} <= Watcher.met


class Broken(lh.Sender):
    """Breaks in the method, and with the value, that a test asks for."""

    broken = "on_ack"
    value: object = None

    def act(self, method: str) -> None:
        if method == self.broken:
            self.cwnd = self.value  # type: ignore[assignment]

    def on_ack(self, ack: Ack) -> None:
        self.act("on_ack")
        self.cwnd += 1

    def on_loss(self, loss: Loss) -> None:
        self.act("on_loss")

    def on_timeout(self, loss: Loss) -> None:
        self.act("on_timeout")
        self.ssthresh = self.cwnd = 2


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        ("on_ack", float("nan"), "cwnd cannot be NaN: it is a number of segments, not negative"),
        ("on_loss", -3.0, "cwnd cannot be -3: it is a number of segments, not negative"),
        ("on_ack", float("inf"), "cwnd cannot be inf: it is a number of segments, not negative"),
        ("on_loss", None, "must be real number, not NoneType"),
    ],
)
def test_an_impossible_window_ends_the_run(method: str, value: object, message: str) -> None:
    class_ = type("Broken", (Broken,), {"broken": method, "value": value})
    with pytest.raises(lh.RunError) as caught:
        lh.run(one_flow("mine"), transports={"mine": class_})
    text = str(caught.value)
    assert text.startswith(f'seed 1: transport "mine": Broken.{method} raised ')
    line = next(
        number
        for number, line in enumerate(Path(__file__).read_text().splitlines(), start=1)
        if line.strip().startswith("self.cwnd = self.value")
    )
    assert text.endswith(f"{message} ({__file__}, line {line})")
    assert " simulated: " in text
    cause = caught.value.__cause__
    assert isinstance(cause, (ValueError, TypeError))
    # The place in the user's own code is in the traceback.
    assert "self.cwnd = self.value" in "".join(traceback.format_exception(cause))


def test_the_first_failure_of_many_seeds_is_told_and_the_rest_is_kept() -> None:
    class_ = type("Broken", (Broken,), {"value": -1.0})
    with pytest.raises(lh.RunError, match=r"Broken\.on_ack raised ValueError"):
        lh.run_seeds(one_flow("mine"), range(8), transports={"mine": class_})


class Unmade(lh.Sender):
    """Cannot be made."""

    def __init__(self) -> None:
        raise LookupError("no such thing")

    def on_ack(self, ack: Ack) -> None: ...

    def on_loss(self, loss: Loss) -> None: ...


def test_a_constructor_that_raises_ends_the_run() -> None:
    with pytest.raises(lh.RunError) as caught:
        lh.run(one_flow("mine"), transports={"mine": Unmade})
    text, _, place = str(caught.value).partition(" (")
    assert text == 'seed 1: transport "mine": Unmade.__init__ raised LookupError: no such thing'
    assert place.startswith(f"{__file__}, line ")
    assert isinstance(caught.value.__cause__, LookupError)


class Odd(Reno):
    """Returns what means nothing."""

    def on_loss(self, loss: Loss) -> int:  # type: ignore[override]
        return 7


class Misspelt(Reno):
    """Has a method that nothing calls."""

    def on_acks(self, ack: Ack) -> None: ...


class Half(lh.Sender):
    """Has no answer to a loss."""

    def on_ack(self, ack: Ack) -> None: ...


class Needy(Reno):
    """Cannot be made without an argument."""

    def __init__(self, gain: float) -> None: ...


class Hiding(Reno):
    """Its parameter could not be told from a key of every transport."""

    def __init__(self, ecn: bool = False) -> None: ...


class Elsewhere(Reno):
    """Wants an engine that does not exist."""

    recovery = "psychic"


def test_a_verdict_is_one_of_two() -> None:
    with pytest.raises(
        lh.RunError, match=r'Odd\.on_loss .*: it must return "congestion", "wireless" or None, not 7'
    ):
        lh.run(one_flow("mine"), transports={"mine": Odd})


@pytest.mark.parametrize(
    ("name", "class_", "message"),
    [
        (
            "mine",
            int,
            "transport 'mine' must be a class that inherits from lasthop.Sender, not <class 'int'>",
        ),
        ("mine", Half, "transport 'mine': class Half has no method on_loss"),
        (
            "mine",
            Slotted,
            "transport 'mine': class Slotted has __slots__, which copies would lose: leave them out",
        ),
        (
            "mine",
            Misspelt,
            "transport 'mine': nothing calls Misspelt.on_acks; the methods are on_ack, on_loss, on_any_ack, "
            "on_ecn, on_idle, on_rate, on_signal, on_start, on_timeout, pacing_rate",
        ),
        ("mine", Needy, "transport 'mine': parameter 'gain' of Needy has no default: give it one"),
        ("reno", Reno, 'transport "reno" is built in: choose another name'),
        (
            "My Sender",
            Reno,
            'bad name "My Sender" of a transport: use lower-case letters, digits and hyphens, a letter '
            "first, or FILE.py:CLASS",
        ),
        (
            "mine",
            Hiding,
            'parameter "ecn" has the name of a key that every transport has: choose another name',
        ),
    ],
)
def test_unusable_classes_are_refused(name: str, class_: type[lh.Sender], message: str) -> None:
    with pytest.raises(lh.ArgumentError) as caught:
        lh.Scenario(lh.EXAMPLE, transports={name: class_})
    assert str(caught.value) == message


def test_an_unknown_recovery_is_refused() -> None:
    with pytest.raises(lh.ArgumentError, match='unknown recovery "psychic": use one of tahoe, reno, newreno'):
        lh.Scenario(lh.EXAMPLE, transports={"mine": Elsewhere})


def test_a_name_without_its_class_is_unknown() -> None:
    with pytest.raises(lh.ScenarioError, match='unknown transport "mine"'):
        lh.Scenario(one_flow("mine"))
    with pytest.raises(lh.ScenarioError, match='did you mean "mine"'):
        lh.Scenario(one_flow("mines"), transports={"mine": Reno})
