from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding, worst


def test_the_worst_counts() -> None:
    assert worst([]) == OK
    findings = [Finding(severity, "topic", "what") for severity in (WARNING, OK, NOTE)]
    assert worst(findings) == WARNING
    assert worst([*findings, Finding(PROBLEM, "topic", "what")]) == PROBLEM
