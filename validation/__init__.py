"""Checks of lasthop against other simulators.

`network` reads a scenario, `ns2` runs it in ns-2.35 and `engine` in lasthop; `compare` holds the two
against each other packet by packet, `statistics` over many random runs. Used by `tests/differential` and
`bench`.
"""
