"""Starts an error model in Rust: `make new-error-model NAME=x` calls it.

It writes the file of the model and the file of its keys, and registers both. What it writes compiles,
`lasthop run` accepts it, and it has one test that fails: the first vector, which only its author can work
out. It never overwrites anything.
"""

from __future__ import annotations

import sys

from generator import Family, run

NEXT = """\
written:    {file}
            {keys}
registered: {folder}/mod.rs and {keys_folder}/mod.rs, in two places each

What comes next:
  1. {file}: the head of the file, what a plan says, which packets are lost.
  2. Its test `ten_packets_by_hand` fails until it holds what you have worked out by hand:
       cargo test -p lasthop-net --lib {module}
  3. {keys}: one key for each field.
  4. `make build`, then:
       .venv/bin/lasthop run scenarios/single-flow.toml \\
           --set 'topology.bottleneck.error={{ kind = "{name}", every = 100 }}'
  5. A line in `mean_losses_are_those_of_the_models` ({folder}/mod.rs) if it has a mean loss;
     a test of a whole run in crates/lasthop-sim/tests/devices.rs; a line in CHANGELOG.md; `make docs`.
docs/how-to/add-a-device.md tells more."""

ERROR_MODELS = Family(
    template="error_model",
    suffix="losses",
    noun="error models",
    example="make new-error-model NAME=fading",
    folder="crates/lasthop-net/src/channel",
    macro="channels",
    line="@TYPE@(@MODULE@::@TYPE@) => @MODULE@::@TYPE@State,",
    keys="crates/lasthop-sim/src/scenario/error",
    keys_macro="models",
    next=NEXT,
)


if __name__ == "__main__":
    sys.exit(run("new-error-model", ERROR_MODELS.make))
