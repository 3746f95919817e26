"""Kill the commands that pack and unpack at every point: user software is never lost."""

import signal
from pathlib import Path

import pytest
from faults import (
    CASES,
    RUNTIME,
    Tree,
    calls,
    check_after_fault,
    killed_at_each_call,
    run,
    said,
    system_calls,
    versions,
)

pytestmark = pytest.mark.slow


def test_every_case_ends_well_without_a_fault(tree: Tree, tools: Path) -> None:
    for case in CASES.values():
        tree.reset(**case.before)
        assert run(tree, case.command, tools) == 0, said(tools)
        assert tree.litter() == set()
        after = tree.check_use()
        assert tree.in_use(after) in case.finally_in_use
        assert versions(tree, after) >= set(case.kept)


@pytest.mark.parametrize("name", CASES)
def test_killed_before_and_after_each_tool(tree: Tree, tools: Path, name: str) -> None:
    case = CASES[name]
    quick = {"FAULT_RUNTIME": str(tools.parent / "quick-runtime"), "FAULT_WORD": case.kept[0]}
    points = 0

    def state() -> dict[str, str]:
        tree.check_sums()
        return tree.state()

    for where in killed_at_each_call(tree, case.command, tools, lambda: tree.reset(**case.before), state, **quick):
        points += 1
        check_after_fault(tree, case, tools, where)
    print(f"{name}: {points} points")
    assert points >= 6


@pytest.mark.parametrize("case_name", [name for name in CASES if name != "unpack-marked"])
def test_killed_at_each_system_call_of_each_tool(tree: Tree, tools: Path, case_name: str) -> None:
    case = CASES[case_name]
    quick = {"FAULT_RUNTIME": str(tools.parent / "quick-runtime"), "FAULT_WORD": case.kept[0]}
    tree.reset(**case.before)
    assert run(tree, case.command, tools, FAULT_HOW="count", **quick) == 0, said(tools)
    made = [
        (number, call, name, when)
        for number, call in enumerate(calls(tools), 1)
        if not call.startswith(RUNTIME)
        for name, when in system_calls(tools, number)
    ]
    last = {(number, name): when for number, _, name, when in made}
    points = {"alone": 0, "group": 0}
    for number, call, name, when in made:
        # to the script a tool that is killed alone is the same at each of a thousand writes
        for how in ("alone", "group") if when in (1, last[number, name]) else ("group",):
            tree.reset(**case.before)
            fault = {"FAULT_AT": str(number), "FAULT_HOW": f"{how}:{name}:{when}", **quick}
            status = run(tree, case.command, tools, **fault)
            if not (tools.parent / "calls.hit").exists():
                assert status == 0, said(tools)  # threads share their work in another way each time
                continue
            assert how == "alone" or status == -signal.SIGKILL
            points[how] += 1
            check_after_fault(tree, case, tools, f"killed {how} at {name} {when} of call {number}, {call!r}")
    print(f"{case.command}: {points} points of {len(made)}")
    assert points["alone"] >= 5
    assert points["group"] >= max(5, 0.9 * len(made))
