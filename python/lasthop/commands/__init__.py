"""The verbs of the `lasthop` command, a file for each group; `lasthop.cli` registers them."""
