"""The optional native extension, ``intarsia-native``: whether it is used, and the types of its functions.

Everything works without it. What it refuses is decided in Python, so it changes times, not results or errors.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from intarsia.errors import IntarsiaWarning

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

#: The version of this package, which the extension must have, too.
VERSION = "0.1.0"

#: The environment variable that says whether the extension is used, and its values.
SWITCH, _VALUES = "INTARSIA_NATIVE", ("auto", "off", "require")

#: How often the extension refused bytes, by reason. A refusal of sound bytes costs time, so tests count them.
refusals: Counter[str] = Counter()


#: The chunks of row groups: the bytes of the footer, the offset of the first chunk in them, and their number.
GroupPlaces: TypeAlias = "Sequence[tuple[bytes, int, int]]"

#: 64-bit integers, one for each column of an outline, chunk and row group; and the distinct encodings and
#: numbers of pages by type and encoding, to which one of the columns refers.
NativeOutlines: TypeAlias = "tuple[bytes, list[tuple[list[int], list[tuple[int, int, int]]]]]"


class SupportsArrowArray(Protocol):
    """An array that pyarrow imports."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...


class NativeSchema(Protocol):
    """The schema of files in the extension.

    Attributes:
        supported: For each top-level field whether `Native.decode` decodes it.
    """

    supported: tuple[bool, ...]


class Native(Protocol):
    """The functions of the extension: pure functions of bytes that raise only ``Refused``."""

    __version__: str
    Refused: type[Exception]

    def outlines(self, groups: GroupPlaces, ordinals: Sequence[int]) -> NativeOutlines:
        """Return the offsets and counts of chunks; see `intarsia.file.decode.outlines_of`."""

    def chunks(self, groups: GroupPlaces, ordinal: int, structs: ModuleType) -> list[Any]:
        """Return a `ColumnChunk` of each row group, made of the classes in `intarsia.format.structs`."""

    def lacking(
        self,
        data: bytes,
        place: tuple[int, int],
        codec: int,
        raw_bytes: int,
        width: int | None,
        sought: Sequence[tuple[tuple[bytes, ...], ...] | None],
    ) -> list[bool]:
        """Return which conditions have no match; see `intarsia.indexes.dictionary.lacks_bytes`."""

    def Schema(self, footer: bytes, arrow: pa.Schema) -> NativeSchema:  # noqa: N802  (a class)
        """Return a schema, given a footer that has it, and what pyarrow makes of it."""

    def decode(
        self,
        schema: NativeSchema,
        fields: Sequence[tuple[int, bool, Sequence[Any]]],
        starts: bytes,
        stops: bytes,
        checksums: bool,
    ) -> SupportsArrowArray:
        """Return the selected rows of columns; see `intarsia.file.decode`."""


@cache
def load() -> Native | None:
    """Import the extension on first use; None if it is absent, switched off, or of another version.

    ``INTARSIA_NATIVE=off`` switches it off; ``INTARSIA_NATIVE=require`` makes its absence an error.

    Raises:
        ImportError: If it is required, and absent or of another version.
        ValueError: If the environment variable has another value.

    Example:
        >>> extension = load()
        >>> extension is None or extension.__version__ == VERSION
        True
    """
    wanted = os.environ.get(SWITCH) or "auto"
    if wanted not in _VALUES:
        raise ValueError(f"the environment variable {SWITCH} is {wanted!r}; set it to one of {_VALUES}")
    if wanted == "off":
        return None
    try:
        import intarsia_native as found
    except ImportError:
        if wanted == "require":
            raise
        return None
    if found.__version__ != VERSION:
        message = (
            f"intarsia-native {found.__version__} is not used, because Intarsia is {VERSION}; "
            f"install intarsia-native=={VERSION}"
        )
        if wanted == "require":
            raise ImportError(message)
        warnings.warn(message, IntarsiaWarning, stacklevel=2)
        return None
    return cast("Native", found)


def attempt(call: Callable[[Native], T]) -> T | None:
    """Call a function of the extension; None without the extension, or if it refuses the bytes.

    Example:
        >>> attempt(lambda extension: extension.__version__) in (None, VERSION)
        True
    """
    extension = load()
    if extension is None:
        return None
    try:
        return call(extension)
    except extension.Refused as refused:
        refusals[str(refused)] += 1
        return None
