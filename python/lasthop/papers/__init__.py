"""Papers reproduced by lasthop: their claims, how a claim is judged, and the studies that give the figures.

`library` finds and reads a paper's folder, `grammar` parses the formula of a claim, `evaluation` computes it
over simulated data, `judge` gives the verdict, `reproduce` runs the studies, `report` writes what came out.
Used by `lasthop reproduce` and `lasthop claims`; the papers themselves lie in `data`.
"""
