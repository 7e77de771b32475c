"""Where a sequence is cut into nodes, from its content alone.

An item starts a node if its hash is smaller than those of `reach` items on either side. So equal sequences are cut
equally however they came about, an edit moves cuts only within `reach` of it, and a node has at least `reach + 1`
items (save the last), about `2 * reach + 1` on average, and rarely twice that. (Cutting where a hash falls below a
limit, as most such trees do, gives nodes so uneven that an edit rewrites almost twice as much.)
"""

from __future__ import annotations

from collections.abc import Sequence


def starts(hashes: Sequence[int], reach: int, *, at_end: bool = True) -> list[int]:
    """Positions at which nodes start; the first is always 0.

    Args:
        hashes: of a whole sequence, or of a part that begins where a node is known to start.
        at_end: whether it is the end of the whole sequence. If not, the item after the last is known to start a node.
    """
    # The first item keeps others from starting a node near it: because it has the smallest hash there or, at the very
    # beginning, by decree. The item behind the end does the same.
    count = len(hashes)
    end = count if at_end else count - reach
    found = [0] if count else []
    for place in range(reach + 1, end):
        if hashes[place] >= hashes[place - 1]:  # spares half of the looks around
            continue
        around = hashes[place - reach : place + reach + 1]
        least = min(around)
        if hashes[place] == least and around.count(least) == 1:
            found.append(place)
    return found


def spans(cuts: Sequence[int], count: int) -> list[tuple[int, int]]:
    """The (start, end) of each node."""
    return list(zip(cuts, [*cuts[1:], count], strict=True)) if cuts else []
