"""Fixtures for the tests of reports and page maps."""

import pytest

from tests.lake.report_lakes import FORMS, ByName


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """Returns the folder of a lake."""
    return ByName((name, form.write(tmp_path_factory.mktemp("lake"))) for name, form in FORMS.items())
