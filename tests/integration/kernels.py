"""A kernel of the demo's module, as a Jupyter server of the user starts it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from tests.waiting import until

NAME = "python-3.11-demo-singularity"


def client_of(data: Path, runtime: Path) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """Start the kernel as a Jupyter server of the user does, outside of any module."""
    specs = KernelSpecManager(kernel_dirs=[str(data / "kernels")], ensure_native_kernel=False)
    runtime.mkdir(parents=True, exist_ok=True)
    # Jupyter would choose ports that are free, and the kernel binds them seconds later: these no connection takes
    port = 12_000 + os.getpid() % 1000 * 5
    names = ("shell_port", "iopub_port", "stdin_port", "hb_port", "control_port")
    manager = KernelManager(
        kernel_name=NAME,
        kernel_spec_manager=specs,
        connection_file=str(runtime / "kernel-test.json"),
        cache_ports=False,
        **dict(zip(names, range(port, port + len(names)))),
    )
    manager.start_kernel(cwd=str(data))  # a working directory is shown too: not that of the checkout
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=240)
        yield manager, client
    finally:
        client.stop_channels()
        started = processes_of(manager)
        # asked to end: killed at once, it would leave its mounts (docs/howto/use-jupyter.md)
        manager.shutdown_wait_time = 240
        manager.shutdown_kernel()
    assert started
    until(lambda: not any(Path("/proc", pid).exists() for pid in started))


def processes_of(manager: KernelManager) -> list[str]:
    """The runtime of a kernel, and what it has started: Python, and what mounts image and packed user software."""
    assert isinstance(manager.provisioner, LocalProvisioner)
    parent = str(manager.provisioner.pid)
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", parent], capture_output=True, text=True, check=False)
    return [parent, *children.stdout.split()]


def outcome(client: BlockingKernelClient, code: str, *, timeout: float = 240) -> str:
    """What a cell prints, and the name of its error.

    An error drops no cell that follows it: a kernel drops also what comes while it still says that a cell has failed.
    """
    said: list[str] = []

    def hear(message: dict[str, dict[str, str]]) -> None:
        content = message["content"]
        said.append(content.get("text", "") + content.get("ename", ""))

    reply = client.execute_interactive(code, timeout=timeout, stop_on_error=False, output_hook=hear)
    assert reply["content"]["status"] != "aborted", "the kernel has not run the cell"
    return "".join(said).strip()
