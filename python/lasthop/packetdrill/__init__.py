"""Scripts of packetdrill, read and turned into our own: `syntax.py` reads, `translation.py` turns.

What concerns a connection as it is modelled here is understood; anything else is refused by name, with its
line. docs/how-to/script-a-connection.md says what that is.
"""

from lasthop.packetdrill.translation import Translated, translate

__all__ = ["Translated", "translate"]
