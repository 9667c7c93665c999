"""Writes the synthetic recordings of `scenarios/train-ride.toml`: a phone in a train, down and up.

No measurement: a model with invented but plausible figures. The train passes a mast every 20 s; the median
rate swings between 3 and 24 Mbit/s with the distance to the next one, times a slow random fading (log-normal,
correlated over 0.4 s), and a tunnel of 3 s has nothing. Rates become opportunities of 1500 B in the format of
Mahimahi: bits add up millisecond by millisecond, and every full 12,000 give a line.

    python tools/make_train_trace.py

writes `train.down` and `train.up` beside the scenario. Running it again gives the same bytes.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "python" / "lasthop" / "ready" / "scenarios"

LENGTH_MS = 60_000
MAST_EVERY_MS = 20_000
TUNNEL_MS = range(33_000, 36_000)
BEST_BIT_S, WORST_BIT_S = 24e6, 3e6
FADING_DB, FADING_MS = 3.0, 400.0
UPLINK_SHARE = 0.25
OPPORTUNITY_BITS = 12_000


def opportunities(seed: int, share: float) -> list[int]:
    """Milliseconds at which 1500 B can be sent; the last line is the length of the recording."""
    chance = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    memory = math.exp(-1.0 / FADING_MS)
    fading_db, bits, lines = chance.gauss(0.0, FADING_DB), 0.0, []
    for now in range(1, LENGTH_MS + 1):
        fading_db = memory * fading_db + math.sqrt(1.0 - memory * memory) * chance.gauss(0.0, FADING_DB)
        # 1 beside a mast, 0 half way between two.
        nearness = (1.0 + math.cos(2.0 * math.pi * now / MAST_EVERY_MS)) / 2.0
        median = WORST_BIT_S * (BEST_BIT_S / WORST_BIT_S) ** nearness
        if now not in TUNNEL_MS:
            bits += share * median * 10.0 ** (fading_db / 10.0) / 1000.0
        while bits >= OPPORTUNITY_BITS:
            bits -= OPPORTUNITY_BITS
            lines.append(now)
    return lines if lines[-1] == LENGTH_MS else [*lines, LENGTH_MS]


def main() -> None:
    """Write both directions."""
    for name, seed, share in (("train.down", 1, 1.0), ("train.up", 2, UPLINK_SHARE)):
        lines = opportunities(seed, share)
        (FOLDER / name).write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
        mbit = len(lines) * OPPORTUNITY_BITS / LENGTH_MS / 1000.0
        print(f"{name}: {len(lines)} opportunities, {mbit:.2f} Mbit/s in the mean")


if __name__ == "__main__":
    main()
