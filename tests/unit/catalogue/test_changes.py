"""What changed between versions."""

from sifmod.catalogue.changes import with_changes
from sifmod.catalogue.model import NewVersion, Package

from .made import an_entry


def test_packages_came_went_and_changed() -> None:
    new = an_entry("Demo/2", packages={"A_B": "2", "kept": "1", "new": "1"})
    old = an_entry("Demo/1", packages={"a-b": "1", "kept": "1", "old": "1"})
    changes = with_changes([new, old])[0].changes
    assert changes
    assert changes.since == "Demo/1"
    assert changes.added == (Package("new", "1"),)
    assert changes.removed == (Package("old", "1"),)
    assert changes.changed == (NewVersion("A_B", "1", "2"),)


def test_versions_without_packages_are_not_compared() -> None:
    entries = [an_entry("Demo/3", packages={"a": "1"}), an_entry("Demo/2"), an_entry("Demo/1", packages={"a": "1"})]
    newest, middle, oldest = with_changes(entries)
    assert newest.changes
    assert newest.changes.since == "Demo/1"
    assert middle.changes is None
    assert oldest.changes is None


def test_other_software_is_not_compared() -> None:
    assert with_changes([an_entry("A/1", packages={"a": "1"}), an_entry("B/1", packages={"a": "2"})])[0].changes is None
