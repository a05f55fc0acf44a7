"""Tests for authors of indexes; see `IndexContract`.

The same checks are available as functions, for other test runners::

    from intarsia.testing import check_index

    check_index(Hosts("url"), pa.array(["https://example.org/", None, "ftp://mirror.example.net/"]))

The functions that check an index take the index and its values, as `check_index` does, and raise
`ContractError`.

The package has no further dependencies. If `Hypothesis <https://hypothesis.works>`_ is installed, it chooses
the layouts of files and minimizes failures.
"""

from collections.abc import Iterable

from intarsia.indexes.base import Index
from intarsia.testing.checks import (
    ContractError,
    Values,
    check_class,
    check_deterministic,
    check_layouts,
    check_parameters,
    check_prunes,
    check_random_layouts,
)
from intarsia.testing.files import check_damage, check_file, check_probed_damage, check_registered
from intarsia.testing.gathered import check_gathered, check_gathered_damage
from intarsia.testing.memory import MemoryColumns, awkward_values, questions

__all__ = [
    "ContractError",
    "IndexContract",
    "MemoryColumns",
    "awkward_values",
    "check_class",
    "check_damage",
    "check_deterministic",
    "check_file",
    "check_gathered",
    "check_gathered_damage",
    "check_index",
    "check_layouts",
    "check_parameters",
    "check_probed_damage",
    "check_prunes",
    "check_random_layouts",
    "check_registered",
    "questions",
]


class IndexContract:
    """The tests that an index has to pass; subclass it in a pytest file.

    Above all, the index must not exclude a matching row, in any layout of row groups and pages. The tests add
    nulls, NaN, empty strings and other edge cases to your values. They also damage payloads, restore the
    parameters from a file, and use the index in a real file, from `intarsia.attach` to `intarsia.detach`.

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
        >>> TestDistinct().test_rows_are_excluded_for_its_predicates()
    """

    def index(self) -> Index:
        """The index; if it has a field ``granularity``, each supported granularity is tested."""
        raise NotImplementedError(f"{type(self).__name__} needs a method index() that returns the index")

    def values(self) -> Values:
        """A few dozen typical values: an array, or a table for an index on several columns."""
        raise NotImplementedError(f"{type(self).__name__} needs a method values() that returns an array")

    def prunes(self) -> Iterable[str]:
        """Predicates, as SQL text; the index must exclude at least one row of `values` for each."""
        return ()

    def test_it_is_a_frozen_dataclass_with_kind_version_and_columns(self) -> None:
        """`intarsia.attach` and the directory of a file require these."""
        check_class(self.index())

    def test_its_parameters_survive_in_a_file(self) -> None:
        """An equal index can be restored from JSON."""
        check_parameters(self.index())

    def test_its_kind_is_registered(self) -> None:
        """Readers of a file with this index find the class."""
        check_registered(self.index())

    def test_it_builds_the_same_bytes_twice(self) -> None:
        """Attaching twice changes nothing."""
        check_deterministic(self.index(), self.values())

    def test_matching_rows_are_not_excluded(self) -> None:
        """No matching row is excluded, in layouts that are special cases."""
        check_layouts(self.index(), self.values())

    def test_matching_rows_are_not_excluded_in_random_layouts(self) -> None:
        """No matching row is excluded, in random layouts."""
        check_random_layouts(self.index(), self.values())

    def test_rows_are_excluded_for_its_predicates(self) -> None:
        """Rows are excluded for each predicate of `prunes`."""
        check_prunes(self.index(), self.values(), self.prunes())

    def test_damage_is_detected_or_harmless(self) -> None:
        """A damaged payload is detected or harmless."""
        check_damage(self.index(), self.values())

    def test_damage_is_detected_when_it_is_probed(self) -> None:
        """The same for a probed payload, whose checksum is not verified."""
        check_probed_damage(self.index(), self.values())

    def test_files_with_matching_rows_are_not_excluded(self) -> None:
        """The same for files of a lake, if the index defines `intarsia.indexes.Index.digest`."""
        check_gathered(self.index(), self.values())

    def test_damage_of_a_lake_index_is_detected_or_harmless(self) -> None:
        """A damaged part of a gathered structure is detected or harmless."""
        check_gathered_damage(self.index(), self.values())

    def test_it_works_in_a_file(self) -> None:
        """`intarsia.attach`, scans, `intarsia.verify` and `intarsia.detach` work with the index."""
        check_file(self.index(), self.values())


def check_index(index: Index, values: Values, prunes: Iterable[str] = ()) -> None:
    """Run all tests of `IndexContract`.

    Args:
        index: The index.
        values: A few dozen typical values of its column; a table if it has several columns.
        prunes: Predicates, as SQL text; the index must exclude at least one row for each.

    Raises:
        ContractError: If a test fails.

    Example:
        >>> import intarsia as ia, pyarrow as pa
        >>> check_index(ia.Distinct("country"), pa.array(["CH", "FR", None]), ["country = 'PE'"])
    """
    for about_class in (check_class, check_parameters, check_registered):
        about_class(index)
    for check in (check_deterministic, check_layouts, check_random_layouts):
        check(index, values)
    check_prunes(index, values, prunes)
    for check in (check_damage, check_probed_damage, check_gathered, check_gathered_damage, check_file):
        check(index, values)
