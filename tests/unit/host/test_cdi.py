"""Files of the Container Device Interface, as nvidia-ctk and amd-ctk write them, and hostile ones."""

import json
import os
from pathlib import Path

import pytest

from sifmod.host.cdi import cdi_files

YAML = """cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/inside
      hostPath: /dev/nvidia1
containerEdits:
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  deviceNodes:
  - path: /dev/nvidiactl
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
    args: [nvidia-cdi-hook, update-ldcache]
  mounts:
  - hostPath: /usr/lib64/libcuda.so.580.82.07
    containerPath: /usr/lib64/libcuda.so.580.82.07
    options: [ro, nosuid]
"""
JSON = {
    "cdiVersion": "0.6.0",
    "kind": "amd.com/gpu",
    "devices": [{"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/kfd"}]}}],
    "containerEdits": {},
}


def test_json_and_yaml_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(YAML)
    (tmp_path / "b.json").write_text(json.dumps(JSON, indent=2))
    (tmp_path / "c.txt").write_text("kind: other")
    nvidia, amd = cdi_files([tmp_path, tmp_path / "none"])
    assert (nvidia.kind, nvidia.devices, nvidia.has_hooks) == ("nvidia.com/gpu", ("0", "all"), True)
    assert nvidia.nodes == ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1")
    assert nvidia.mounts == (("/usr/lib64/libcuda.so.580.82.07",) * 2,)
    assert (amd.kind, amd.devices, amd.nodes, amd.has_hooks, amd.problem) == (
        "amd.com/gpu",
        ("all",),
        ("/dev/kfd",),
        False,
        "",
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        ("[" * 5000, "nested"),
        ("{" * 5000, "can't be a key"),
        ("a: &x [1]\nb: [*x, *x]", "repeats another part"),
        ("kind: [", "line 2"),
        ("kind: \x1b[2J", "control characters"),
        (f'{{"a\\u001b\\n{"b" * 900}": 1, "a\\u001b\\n{"b" * 900}": 2}}', r"the key 'a\x1b\nbbb"),
        ("x" * (5 << 20), "larger"),
    ],
)
def test_what_can_not_be_read_is_named(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "a.yaml").write_text(content)
    (file,) = cdi_files([tmp_path])
    assert (file.devices, file.mounts) == ((), ())
    assert says in file.problem
    assert not {"\x1b", "\n"} & {*file.problem}
    assert len(file.problem) <= 200


@pytest.mark.parametrize("has_libyaml", [True, False])
def test_names_are_text_on_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_libyaml: bool) -> None:
    import yaml

    monkeypatch.setattr(yaml, "__with_libyaml__", has_libyaml and yaml.__with_libyaml__)
    (tmp_path / "a.json").write_text(r'{"kind": "a/b", "devices": [{"name": "x\ny\u001b"}, {"name": "\ud800"}]}')
    (file,) = cdi_files([tmp_path])
    assert file.problem or file.devices == (r"x\ny\x1b", r"\ud800")


def test_a_fifo_is_not_waited_for_and_other_forms_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    long = "/" + "x" * 5000
    (tmp_path / "b.yaml").write_text(
        f"kind: {{a: b}}\ndevices: text\ncontainerEdits: {{mounts: [text, {{hostPath: {long}}}], hooks: 7}}\n"
    )
    fifo, odd = cdi_files([tmp_path])
    assert fifo.problem
    assert (odd.kind, odd.devices, odd.nodes, odd.mounts, odd.problem) == ("", (), (), (("", ""),), "")
