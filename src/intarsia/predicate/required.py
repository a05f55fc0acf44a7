"""What an index of substrings may rely on: the texts that every value which meets a leaf contains.

**Folding.** Where a leaf ignores case, its texts come folded and are contained in the *folded* value, where
to fold is to replace A to Z by a to z, U+212A KELVIN SIGN by k, U+017F LATIN SMALL LETTER LONG S by s, and
nothing else: :func:`fold_case`. These are all characters that have an ASCII letter as another case under
Unicode's simple case folding, which RE2 follows. No letter outside ASCII whose case is ignored is ever in
such a text, so the fold is the same in every version of Unicode, whoever built the index. An index may fold
more on top of this, character by character, if it does the same to the texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.predicate.bound import BoundCompare, BoundMatch, BoundPrefix

if TYPE_CHECKING:
    from intarsia.predicate.bound import Condition


def required_texts(leaf: Condition) -> tuple[str, ...]:
    """Substrings that every value which meets a leaf contains; empty if none is certain.

    Each is at least one character, in order of appearance, each once. Where :func:`ignores_case` is true of
    the leaf they are folded, and contained in the value after :func:`fold_case`; else in the value as it is
    (and so, folded, in the folded value too).

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
    """Whether the required texts of a leaf hold of folded values only."""
    return isinstance(leaf, BoundMatch) and leaf.skeleton.ignores_case


def fold_case(texts: pa.Array) -> pa.Array:
    r"""Folds strings: A to Z, the Kelvin sign and the long s in lower case; all else as it is.

    Args:
        texts: Strings of any Arrow type that `pyarrow.compute.ascii_lower` takes.

    Example:
        >>> fold_case(pa.array(["Stra\u00dfe 5\u212a", None])).to_pylist()
        ['straße 5k', None]
    """
    lower = pc.ascii_lower(texts)
    return pc.replace_substring(pc.replace_substring(lower, "\u017f", "s"), "\u212a", "k")
