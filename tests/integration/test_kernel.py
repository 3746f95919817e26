"""A Jupyter kernel of a container: a real client of Jupyter, on the host, runs cells in it."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from kernels import NAME, client_of, outcome
from tests.programs import write_file

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, User, make_user, make_wheel


@pytest.fixture(scope="module")
def with_ipykernel(tmp_path_factory: pytest.TempPathFactory) -> User:
    """The demo with ipykernel and a package of the user, packed."""
    user = make_user(tmp_path_factory.mktemp("kernel") / "eb")
    user.eb(DEMO_EASYCONFIG)
    wheel = make_wheel(user.prefix, "greeting", "1.0", "def greet():\n    return 'hello'\n")
    user.pip_install(DEMO_MODULE, "ipykernel", str(wheel))
    user.run(f"module load {DEMO_MODULE}; make-squashfs")
    return user


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def interrupted(manager: KernelManager, client: BlockingKernelClient, waiting: str) -> dict[str, Any]:
    """The reply to a waiting cell that the user interrupts, again if the kernel has missed it: ipykernel can."""
    deadline = time.monotonic() + 240  # the cell sleeps for longer
    manager.interrupt_kernel()
    while time.monotonic() < deadline:
        try:
            reply: dict[str, Any] = client.get_shell_msg(timeout=30)
        except Empty:
            manager.interrupt_kernel()
        else:
            if reply["parent_header"]["msg_id"] == waiting:
                return reply
    raise AssertionError("the kernel does not end an interrupted cell")


def test_a_cell_runs_in_the_container_with_the_users_packages(with_ipykernel: User, data: Path, tmp_path: Path) -> None:
    with_ipykernel.env["JUPYTER_DATA_DIR"] = str(data)
    out = with_ipykernel.out(f"sifmod kernel {DEMO_MODULE} --display-name 'Demo (container)'")
    assert f"wrote the kernel {NAME} of {DEMO_MODULE} to {data}/kernels/{NAME}" in out
    assert (
        KernelSpecManager(kernel_dirs=[str(data / "kernels")]).get_kernel_spec(NAME).display_name == "Demo (container)"
    )
    for manager, client in client_of(data, tmp_path / "runtime"):
        assert outcome(client, "import sys, greeting; print(sys.prefix, greeting.greet())") == (
            "/user-software/venv/demo hello"
        )
        assert outcome(client, "import os; print(os.path.isdir('/.singularity.d'))") == "True"
        assert "host: make-squashfs --remove-directory; add-layer; pip install x; " in outcome(client, "%pip install x")

        # An interrupt ends the cell, and neither the kernel nor the mounts of the container.
        sleep = "import time; print('on', end='', flush=True); time.sleep(600)"  # a line's end may come alone
        waiting = client.execute(sleep, stop_on_error=False)  # or the cell after it may be dropped: kernels.outcome
        while client.get_iopub_msg(timeout=240)["content"].get("text") != "on":
            pass
        assert interrupted(manager, client, waiting)["content"]["ename"] == "KeyboardInterrupt"
        assert outcome(client, "import json.tool, greeting; print(greeting.greet())") == "hello"

        manager.restart_kernel()
        client.wait_for_ready(timeout=240)
        assert outcome(client, "print(6 * 7)") == "42"


def test_the_module_s_kernel_comes_before_that_of_the_home(with_ipykernel: User, data: Path) -> None:
    """jupyter_core does that by itself for the owner of the environment alone."""
    write_file(
        data / "kernels/python3/kernel.json",
        '{"argv": ["/usr/bin/false"], "display_name": "Host", "language": "python"}',
    )
    code = (
        "import os; os.geteuid = lambda: 54321; os.getlogin = lambda: 'another'\n"
        "from jupyter_client.kernelspec import KernelSpecManager\n"
        "print(KernelSpecManager().get_kernel_spec('python3').argv[0])"
    )
    out = with_ipykernel.out(f"module load {DEMO_MODULE}; JUPYTER_DATA_DIR={data} python -c {shlex.quote(code)}")
    assert out.endswith("python")


@pytest.mark.parametrize("name", ["XDG_RUNTIME_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR"])
def test_connection_files_are_seen_in_folders_of_this_login(
    with_ipykernel: User, data: Path, scratch: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VS Code puts them below XDG_RUNTIME_DIR, which is gone after the last logout."""
    with_ipykernel.env["JUPYTER_DATA_DIR"] = str(data)
    with_ipykernel.run(f"JUPYTER_RUNTIME_DIR={scratch}/gone sifmod kernel {DEMO_MODULE} --replace")
    monkeypatch.setenv(name, str(scratch))
    for _, client in client_of(data, scratch / "jupyter/runtime"):
        assert outcome(client, "print(6 * 7)") == "42"
