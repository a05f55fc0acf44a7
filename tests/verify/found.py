"""What `verify` found, as tests want it."""

from intarsia.check.verification import RULES, verify


def found(path, rule=None):
    """The findings, or those of one rule; no two rules may blame the same thing unless a test says so."""
    return [finding for finding in verify(path).findings if rule is None or finding.rule == rule]


def only(path, rule, *, index, column="id", row_group=0, page=None, severity="error"):
    """The one finding there is."""
    findings = found(path)
    assert [finding.rule for finding in findings] == [rule], [str(finding) for finding in findings]
    (finding,) = findings
    assert (finding.severity, finding.column, finding.row_group) == (severity, column, row_group)
    assert (finding.index, finding.page) == (index, page)
    assert finding.consequence == RULES[rule][1]
    assert verify(path).ok == (severity != "error")
    return finding.message


def little(number, width=8):
    return number.to_bytes(width, "little", signed=True)
