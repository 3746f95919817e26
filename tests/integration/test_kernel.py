"""A Jupyter kernel of a container: a real client of Jupyter, on the host, runs cells in it."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, User, make_user, make_wheel

NAME = "python-3.11-demo-singularity"


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


def client_of(data: Path, runtime: Path) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """Start the kernel as a Jupyter server of the user does, outside of any module."""
    specs = KernelSpecManager(kernel_dirs=[str(data / "kernels")], ensure_native_kernel=False)
    runtime.mkdir(parents=True, exist_ok=True)
    manager = KernelManager(
        kernel_name=NAME, kernel_spec_manager=specs, connection_file=str(runtime / "kernel-test.json")
    )
    manager.start_kernel(cwd=str(data))  # a working directory is shown too: not that of the checkout
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=90)
        yield manager, client
    finally:
        client.stop_channels()
        started = processes_of(manager)
        # asked to end: killed at once, it would leave its mounts (docs/howto/use-jupyter.md)
        manager.shutdown_wait_time = 60
        manager.shutdown_kernel()
    deadline = time.monotonic() + 90
    while any(Path("/proc", pid).exists() for pid in started) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert started
    assert [pid for pid in started if Path("/proc", pid).exists()] == []


def processes_of(manager: KernelManager) -> list[str]:
    """The runtime of a kernel, and what it has started: Python, and what mounts image and packed user software."""
    assert isinstance(manager.provisioner, LocalProvisioner)
    parent = str(manager.provisioner.pid)
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", parent], capture_output=True, text=True, check=False)
    return [parent, *children.stdout.split()]


def interrupted(manager: KernelManager, client: BlockingKernelClient, waiting: str) -> dict[str, Any]:
    """The reply to a waiting cell that the user interrupts, again if the kernel has missed it: ipykernel can."""
    deadline = time.monotonic() + 50  # the cell sleeps for longer
    manager.interrupt_kernel()
    while time.monotonic() < deadline:
        try:
            reply: dict[str, Any] = client.get_shell_msg(timeout=5)
        except Empty:
            manager.interrupt_kernel()
        else:
            if reply["parent_header"]["msg_id"] == waiting:
                return reply
    raise AssertionError("the kernel does not end an interrupted cell")


def outcome(client: BlockingKernelClient, code: str) -> str:
    """What a cell prints, and the name of its error."""
    said: list[str] = []

    def hear(message: dict[str, dict[str, str]]) -> None:
        content = message["content"]
        said.append(content.get("text", "") + content.get("ename", ""))

    client.execute_interactive(code, timeout=60, output_hook=hear)
    return "".join(said).strip()


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

        # An interrupt ends the cell, and neither the kernel nor the mounts of the container.
        waiting = client.execute("import time; print('on', flush=True); time.sleep(60)")
        while client.get_iopub_msg(timeout=90)["content"].get("text") != "on\n":
            pass
        assert interrupted(manager, client, waiting)["content"]["ename"] == "KeyboardInterrupt"
        assert outcome(client, "import json.tool, greeting; print(greeting.greet())") == "hello"

        manager.restart_kernel()
        client.wait_for_ready(timeout=90)
        assert outcome(client, "print(6 * 7)") == "42"


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that no container shows by itself."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        yield Path(folder)


def test_a_folder_of_connection_files_outside_of_the_home_is_bound(
    with_ipykernel: User, data: Path, elsewhere: Path
) -> None:
    runtime = elsewhere / "a,b"
    with_ipykernel.env.update(JUPYTER_DATA_DIR=str(data), JUPYTER_RUNTIME_DIR=str(runtime))
    with_ipykernel.run(f"sifmod kernel {DEMO_MODULE}")
    assert "a\\\\,b" in (data / "kernels" / NAME / "kernel.json").read_text()
    with_ipykernel.env.pop("JUPYTER_RUNTIME_DIR")
    for _, client in client_of(data, runtime):
        assert outcome(client, "print(6 * 7)") == "42"


def test_what_is_wrong_is_said_before_anything_is_written(with_ipykernel: User, demo: User, data: Path) -> None:
    with_ipykernel.env["JUPYTER_DATA_DIR"] = demo.env["JUPYTER_DATA_DIR"] = str(data)
    done = with_ipykernel.run("sifmod kernel no/such", check=False)
    assert (done.returncode, f"there are {DEMO_MODULE}" in done.stderr) == (7, True)
    done = demo.run(f"sifmod kernel {DEMO_MODULE}", check=False)
    assert done.returncode == 10
    assert f"{demo.installdir(DEMO_MODULE)}/bin/pip install ipykernel" in done.stderr
    assert not data.exists()
    del demo.env["JUPYTER_DATA_DIR"]

    with_ipykernel.run(f"sifmod kernel {DEMO_MODULE}")
    done = with_ipykernel.run(f"sifmod kernel {DEMO_MODULE} --display-name other", check=False)
    assert (done.returncode, "--replace" in done.stderr) == (10, True)
    # the loaded module needs no prefix
    found = with_ipykernel.out(
        f"module load {DEMO_MODULE}; unset EASYBUILD_PREFIX; sifmod kernel Python --display-name other --replace --json"
    )
    assert json.loads(found)["spec"]["display_name"] == "other"
    assert [path.name for path in (data / "kernels").iterdir()] == [NAME]
