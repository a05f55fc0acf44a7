"""Tests for authors of indexes; see `IndexContract`.

The same checks are available as functions, for other test runners::

    from intarsia.testing import check_index

    check_index(Hosts("url"), pa.array(["https://example.org/", None, "ftp://mirror.example.net/"]))

The functions that check an index take the index and its values, as `check_index` does, and raise
`ContractError`.

The package has no further dependencies. If `Hypothesis <https://hypothesis.works>`_ is installed, it chooses
the layouts of files and minimizes failures.
"""

from intarsia.testing.checks import (
    ContractError,
    check_class,
    check_deterministic,
    check_layouts,
    check_parameters,
    check_prunes,
    check_random_layouts,
)
from intarsia.testing.contract import IndexContract, check_index
from intarsia.testing.files import check_damage, check_file, check_probed_damage, check_registered
from intarsia.testing.gathered import check_gathered, check_gathered_damage
from intarsia.testing.memory import MemoryColumns
from intarsia.testing.questions import awkward_values, questions

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
