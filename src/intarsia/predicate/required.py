"""The substrings that every value matching a condition contains, for indexes of substrings.

**Folding.** If a condition ignores case, its required texts are folded, and the *folded* value contains them.
:func:`fold_case` replaces A to Z by a to z, U+212A KELVIN SIGN by k and U+017F LATIN SMALL LETTER LONG S by
s, and nothing else. These are all characters with an ASCII letter as another case under Unicode's simple case
folding, which RE2 follows. Required texts never contain a non-ASCII letter whose case is ignored, so folding
does not depend on the version of Unicode with which the index was built. An index may fold further, character
by character, if it folds the required texts in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.predicate.bound import BoundCompare, BoundMatch, BoundPrefix

if TYPE_CHECKING:
    from intarsia.predicate.bound import Condition


def required_texts(leaf: Condition) -> tuple[str, ...]:
    """Return the substrings that every value matching a condition contains, or an empty tuple if unknown.

    The substrings are distinct, not empty, and in order of appearance. If :func:`ignores_case` is true for
    the condition, they are folded, and the value contains them after :func:`fold_case`. Otherwise the value
    itself contains them (and so the folded value contains the folded substrings).

    Example:
        >>> from intarsia.predicate import bind, parse_sql
        >>> schema = pa.schema({"s": pa.string()})
        >>> required_texts(bind(parse_sql("s LIKE '%/api/v_/%.json'"), schema))
        ('/api/v', '/', '.json')
        >>> required_texts(bind(parse_sql("s NOT LIKE '%a%'"), schema))
        ()
    """
    if isinstance(leaf, BoundMatch) and not leaf.negated:
        return leaf.skeleton.texts
    if isinstance(leaf, BoundPrefix) and not leaf.negated:
        return (leaf.prefix.decode(),)
    if isinstance(leaf, BoundCompare) and leaf.op == "=" and pa.types.is_string(leaf.type):
        text = leaf.value.as_py()
        return (text,) if text else ()
    return ()


def ignores_case(leaf: Condition) -> bool:
    """Return whether only folded values contain the required texts of a condition."""
    return isinstance(leaf, BoundMatch) and leaf.skeleton.ignores_case


def fold_case(texts: pa.Array) -> pa.Array:
    r"""Fold strings: convert A to Z, the Kelvin sign and the long s to lower case, and nothing else.

    Args:
        texts: Strings of any Arrow type that `pyarrow.compute.ascii_lower` accepts.

    Example:
        >>> fold_case(pa.array(["Stra\u00dfe 5\u212a", None])).to_pylist()
        ['straße 5k', None]
    """
    lower = pc.ascii_lower(texts)
    return pc.replace_substring(pc.replace_substring(lower, "\u017f", "s"), "\u212a", "k")
