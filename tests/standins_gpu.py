"""STAND-INS for what is on a node with an NVIDIA card, files of its driver, and for CUDA's compat libraries."""

from pathlib import Path

A100 = "NVIDIA A100-SXM4-40GB"
GEFORCE = "NVIDIA GeForce RTX 4090"


def write_driver(folder: Path, version: str, *models: str) -> None:
    """Write what is in /proc/driver of a node with a driver and these cards; without a version it has none."""
    folder.mkdir(parents=True, exist_ok=True)
    if not version:
        return
    cards = folder / "nvidia/gpus"
    cards.mkdir(parents=True)
    line = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (dvs-builder@U22)\n"
    (folder / "nvidia/version").write_text(f"{line}GCC version:  gcc version 13.3.0\n")
    for number, model in enumerate(models, 1):
        (cards / f"0000:0{number}:00.0").mkdir()
        text = f"Model: \t\t {model}\nIRQ:   \t\t 101\nGPU UUID: \t GPU-00000000-0000\n"
        (cards / f"0000:0{number}:00.0/information").write_text(text)


def write_compat(folder: Path, version: str) -> Path:
    """Write compat libraries without content, and return their folder; nothing without a version."""
    if version:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"libcuda.so.{version}").touch()
        (folder / "libcuda.so.1").symlink_to(f"libcuda.so.{version}")
    return folder
