"""The contract of an index, as a test class to derive from and as one function."""

from __future__ import annotations

from collections.abc import Iterable

from intarsia.indexes.base import Index
from intarsia.testing.checks import (
    Values,
    check_class,
    check_deterministic,
    check_layouts,
    check_parameters,
    check_prunes,
    check_random_layouts,
)
from intarsia.testing.damage import check_damage, check_probed_damage
from intarsia.testing.files import check_announced, check_file


class IndexContract:
    """The tests that an index has to pass: derive from it in a pytest file.

    Above all: no row that meets a predicate is ever left out, whatever the file's row groups and pages, with
    nulls, NaN, empty text and other awkward values added to yours.  Damage is tolerated, the parameters
    survive in a file, and the index works in a real file, from `intarsia.attach` to `intarsia.detach`.

    Example:
        >>> import pyarrow as pa
        >>> from intarsia import Distinct
        >>> class TestDistinct(IndexContract):
        ...     def index(self):
        ...         return Distinct("country")
        ...
        ...     def values(self):
        ...         return pa.array(["CH", "CH", "FR", None, "PE"] * 3)
        ...
        ...     def prunes(self):
        ...         return ["country = 'absent'", "country > 'PE'"]
        >>> TestDistinct().test_it_skips_what_it_is_made_for()
    """

    def index(self) -> Index:
        """The index; where it has a field ``granularity``, it is tested at each one that it can have."""
        raise NotImplementedError(f"{type(self).__name__} needs a method index() that returns the index")

    def values(self) -> Values:
        """A few dozen values as they are in your files: an array, or a table of several columns."""
        raise NotImplementedError(f"{type(self).__name__} needs a method values() that returns an array")

    def prunes(self) -> Iterable[str]:
        """Predicates, as SQL text, for each of which the index leaves out some row of `values`."""
        return ()

    def test_it_is_a_frozen_dataclass_with_kind_version_and_columns(self) -> None:
        """What `intarsia.attach` and the directory of a file need to know."""
        check_class(self.index())

    def test_its_parameters_survive_in_a_file(self) -> None:
        """From JSON, an equal index is made."""
        check_parameters(self.index())

    def test_its_kind_is_announced(self) -> None:
        """Whoever reads a file with this index finds the class."""
        check_announced(self.index())

    def test_it_builds_the_same_bytes_twice(self) -> None:
        """Attaching again changes nothing."""
        check_deterministic(self.index(), self.values())

    def test_it_leaves_out_no_matching_row(self) -> None:
        """On each layout that is a special case."""
        check_layouts(self.index(), self.values())

    def test_it_leaves_out_no_matching_row_of_any_layout(self) -> None:
        """On layouts at random."""
        check_random_layouts(self.index(), self.values())

    def test_it_skips_what_it_is_made_for(self) -> None:
        """What `prunes` lists."""
        check_prunes(self.index(), self.values(), self.prunes())

    def test_it_tolerates_damage(self) -> None:
        """In a payload that is read whole."""
        check_damage(self.index(), self.values())

    def test_it_tolerates_damage_where_it_is_probed(self) -> None:
        """In a payload that is not compared with its checksum."""
        check_probed_damage(self.index(), self.values())

    def test_it_works_in_a_file(self) -> None:
        """Attached, scanned, verified, detached."""
        check_file(self.index(), self.values())


def check_index(index: Index, values: Values, prunes: Iterable[str] = ()) -> None:
    """Check all that `IndexContract` does, in one go.

    Args:
        index: The index.
        values: Values of its column as they are in your files; a table if it has several columns.
        prunes: Predicates, as SQL text, for each of which it leaves out some of these rows.

    Raises:
        AssertionError: Telling what is wrong, and what to mend.

    Example:
        >>> import intarsia as ia, pyarrow as pa
        >>> check_index(ia.Distinct("country"), pa.array(["CH", "FR", None]), ["country = 'PE'"])
    """
    check_class(index)
    check_parameters(index)
    check_announced(index)
    check_deterministic(index, values)
    check_layouts(index, values)
    check_random_layouts(index, values)
    check_prunes(index, values, prunes)
    check_damage(index, values)
    check_probed_damage(index, values)
    check_file(index, values)
