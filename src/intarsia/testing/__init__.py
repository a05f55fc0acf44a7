"""What an author of an index needs to test it; see `IndexContract`.

The same checks are functions, for other test runners::

    from intarsia.testing import check_index

    check_index(Hosts("url"), pa.array(["https://example.org/", None, "ftp://mirror.example.net/"]))

Nothing but this package is needed.  Where `Hypothesis <https://hypothesis.works>`_ is installed, it chooses
the layouts of files, and shrinks what fails.
"""

from intarsia.testing.checks import (
    check_class,
    check_deterministic,
    check_layouts,
    check_parameters,
    check_prunes,
    check_random_layouts,
)
from intarsia.testing.contract import IndexContract, check_index
from intarsia.testing.damage import check_damage, check_probed_damage
from intarsia.testing.files import check_announced, check_file
from intarsia.testing.memory import MemoryColumns
from intarsia.testing.questions import awkward_values, questions

__all__ = [
    "IndexContract",
    "MemoryColumns",
    "awkward_values",
    "check_announced",
    "check_class",
    "check_damage",
    "check_deterministic",
    "check_file",
    "check_index",
    "check_layouts",
    "check_parameters",
    "check_probed_damage",
    "check_prunes",
    "check_random_layouts",
    "questions",
]
