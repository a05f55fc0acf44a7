"""Fixtures for index classes of other packages."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def announce_class(announce, monkeypatch):
    """Announce a class that a test defines, whose entry point is an attribute of this module."""

    def announce_class(cls):
        name = f"{cls.__name__}_{id(cls)}"
        monkeypatch.setattr(sys.modules[__name__], name, cls, raising=False)
        announce({cls.kind: f"{__name__}:{name}"})

    return announce_class
