"""The findings of `verify`, for assertions."""

import re

from intarsia.check.verification import RULES, verify


def found(path, rule=None):
    """Return the findings, or those of one rule."""
    return [finding for finding in verify(path).findings if rule is None or finding.rule == rule]


def only(path, rule, *, index, column="id", row_group=0, page=None, severity="error"):
    """Check that there is exactly one finding, with these fields; return its message."""
    report = verify(path)
    findings = report.findings
    assert [finding.rule for finding in findings] == [rule], [str(finding) for finding in findings]
    (finding,) = findings
    assert (finding.severity, finding.column, finding.row_group) == (severity, column, row_group)
    assert (finding.index, finding.page) == (index, page)
    assert finding.consequence == RULES[rule][1]
    assert report.ok == (severity != "error")
    return finding.message


def numbers(message):
    """Return the numbers in a message, in order."""
    return [int(number) for number in re.findall(r"-?\b\d+\b", message)]


def little(number, width=8):
    return number.to_bytes(width, "little", signed=True)
