"""STAND-INS for what is on a node with an NVIDIA card, such as files of its driver, and for CUDA's compat libraries."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.programs import write_file, write_program

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


def write_devices(dev: Path, *names: str) -> Path:
    """Write files in place of devices, and return their folder."""
    for name in names:
        (dev / name).parent.mkdir(parents=True, exist_ok=True)
        (dev / name).touch()
    return dev


def write_compat(folder: Path, version: str) -> Path:
    """Write compat libraries without content, and return their folder; nothing without a version."""
    if version:
        write_file(folder / f"libcuda.so.{version}")
        (folder / "libcuda.so.1").symlink_to(f"libcuda.so.{version}")
    return folder


def write_opengl(folder: Path, *, glibc: str) -> None:
    """Write a libGLdispatch that does nothing, and needs this version of glibc, or any if empty."""
    folder.mkdir()
    words = ["cc", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-x", "none"]
    if glibc:
        (folder / "map").write_text(f"{glibc} {{ newer; }};\n")
        own = ["-Wl,-soname,libc.so.6", f"-Wl,--version-script={folder}/map", "-o", f"{folder}/libc.so.6"]
        subprocess.run([*words, *own], input="void newer(void) {}", text=True, check=True)
        words.append(f"{folder}/libc.so.6")
    uses = "void newer(void); void *used = newer;" if glibc else "int used;"
    subprocess.run([*words, "-o", folder / "libGLdispatch.so.0"], input=uses, text=True, check=True)
    (folder / "libc.so.6").unlink(missing_ok=True)


_CUDA = """
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int *device, int number) { return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
int cuModuleLoadData(void **module, const char *code) { return strstr(code, ".entry fill") ? 0 : 218; }
int cuModuleGetFunction(void **function, void *module, const char *name) { return 0; }
int cuMemAlloc_v2(unsigned long *memory, size_t size) { return 0; }
int cuLaunchKernel() { return getenv("CUDA_VISIBLE_DEVICES") ? ENDS : 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemcpyDtoH_v2(unsigned *to, unsigned long from, size_t size) {
    for (unsigned i = 0; i < size / sizeof *to; i++) to[i] = 3 * i + 7;
    return 0;
}
"""


def write_cuda(folder: Path, driver: str, models: Sequence[str], *, ends: int = 0) -> None:
    """Write what runs on a node with a driver and cards: nvidia-smi, and a libcuda that calculates nothing.

    A kernel of a process that chose a card ends with this error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lists = "; ".join(f"echo 'GPU {number}: {model}'" for number, model in enumerate(models))
    names = "; ".join(f"echo '{model}'" for model in models)
    write_program(
        folder / "nvidia-smi",
        f"#!/bin/sh\ncase $1 in *driver_version) echo '{driver}' ;; *name) {names} ;; *) {lists} ;; esac\n",
    )
    words = ["cc", "-shared", "-fPIC", "-w", f"-DCOUNT={len(models)}", f"-DENDS={ends}", "-x", "c", "-"]
    subprocess.run([*words, "-o", folder / "libcuda.so.1"], input=_CUDA, text=True, check=True)
