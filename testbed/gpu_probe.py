"""Calls the CUDA driver API through ctypes: for gpu-check, in the container and on the host; Python 3.6 or later.

gpu_probe.py count [N]  print how many GPUs CUDA sees, and fail if these are not N
gpu_probe.py kernel     run a kernel on the first GPU and check its result
gpu_probe.py time       print the milliseconds of the first CUDA call (cuInit and a context)
gpu_probe.py dry        all of this up to the driver: check what would be sent to it
gpu_probe.py maps       check that libcuda is the host's
gpu_probe.py opens LIB  open a library
gpu_probe.py unbound BOUND  print which libraries of the host's driver are not among these names
gpu_probe.py doctor FILE    fail with the findings of a report of sifmod doctor on what GPU programs lack
gpu_probe.py sees       fail unless LOCAL_RANK is the number of a GPU in CUDA_VISIBLE_DEVICES
gpu_probe.py has MODULE     fail unless this Python has a module
With torch: compile, ranks, nccl, extension, graph, gl, flops; and jax
"""

import ctypes
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

# result[i] = 3 * i + 7, for one block of threads. PTX 6.0 is compiled by every driver since 384 (CUDA 9).
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry fill(.param .u64 result)
{
    .reg .u32 %r<4>;
    .reg .u64 %a<4>;
    ld.param.u64 %a1, [result];
    cvta.to.global.u64 %a2, %a1;
    mov.u32 %r1, %tid.x;
    mad.lo.u32 %r2, %r1, 3, 7;
    mul.wide.u32 %a3, %r1, 4;
    add.u64 %a2, %a2, %a3;
    st.global.u32 [%a2], %r2;
    ret;
}
\0"""
THREADS = 256
EXPECTED = [3 * number + 7 for number in range(THREADS)]


def call(cuda, name, *arguments):
    """Call a function of the driver; exit with its error."""
    status = getattr(cuda, name)(*arguments)
    if status:
        sys.exit(f"{name} ends with error {status}")


def first_context(cuda):
    """Initialise CUDA, and make a context on the first GPU."""
    call(cuda, "cuInit", 0)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call(cuda, "cuDeviceGet", ctypes.byref(device), 0)
    call(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call(cuda, "cuCtxSetCurrent", context)


def run_kernel(cuda):
    """Compile the kernel, run it, and compare its result."""
    first_context(cuda)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call(cuda, "cuModuleLoadData", ctypes.byref(module), PTX)
    call(cuda, "cuModuleGetFunction", ctypes.byref(function), module, b"fill")
    result, memory = (ctypes.c_uint32 * THREADS)(), ctypes.c_uint64()
    call(cuda, "cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(ctypes.sizeof(result)))
    parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(memory), ctypes.c_void_p))
    call(cuda, "cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, None, parameters, None)
    call(cuda, "cuCtxSynchronize")
    call(cuda, "cuMemcpyDtoH_v2", result, memory, ctypes.c_size_t(ctypes.sizeof(result)))
    if list(result) != EXPECTED:
        sys.exit(f"the kernel gives a wrong result: {list(result)[:8]} ...")


def mapped(library):
    """Return the path of an open library."""
    ctypes.CDLL(library)
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split(None, 5)[5].strip() for line in lines if "/" + library.split(".so")[0] in line)


def check_maps():
    """The driver's library is the host's."""
    path = mapped("libcuda.so.1")
    if not path.startswith("/.singularity.d/libs/"):
        sys.exit("libcuda is " + path)


def check_gl():
    """OpenGL's library is the image's, if it has one."""
    path = mapped("libGL.so.1")
    if path.startswith("/.singularity.d/libs/"):
        sys.exit("libGL is " + path)


def print_unbound(bound):
    """Print the libraries of the host's driver that containers lack."""
    said = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE).stdout.decode()
    names = r"libcuda|libcudadebugger|libnvcuvid|libnvoptix|lib\w+_nvidia|libnvidia-(?!container)[\w-]+"
    driver = rf"\s((?:{names})\.so[.\d]*) "
    print(" ".join(sorted(set(re.findall(driver, said)) - set(bound.split()))) or "none")


def check_doctor(path):
    """No finding is one of sifmod's doctor/gpuneeds.py."""
    findings = json.loads(Path(path).read_text())["findings"]
    topics = ("GPU devices", "driver libraries", "InfiniBand", "variables")
    wrong = [one["topic"] + ": " + one["what"] for one in findings if one["topic"] in topics]
    if wrong or not findings:
        sys.exit("; ".join(wrong) or "doctor found nothing at all")


def check_sees():
    """LOCAL_RANK is the number of a GPU that this process sees."""
    count = len(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))
    if int(os.environ["LOCAL_RANK"]) >= count:
        sys.exit(f"rank {os.environ['LOCAL_RANK']} sees {count} GPUs")


def check_compile():
    """Compile for the card by Triton, and compare with the result without."""
    import torch

    values = torch.randn(4096, device="cuda")
    function = lambda x: torch.sin(x) * 2 + x  # noqa: E731
    if not torch.allclose(torch.compile(function)(values), function(values), atol=1e-5):
        sys.exit("the compiled function gives a wrong result")


def check_ranks():
    """Sum up over two ranks, each on the GPU of its number, or on one that they share."""
    import torch
    from torch import distributed

    several = torch.cuda.device_count() > 1
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) if several else 0)
    distributed.init_process_group("nccl" if several else "gloo")
    total = torch.ones(1, device="cuda" if several else "cpu") * (distributed.get_rank() + 1)
    distributed.all_reduce(total)
    if total.item() != 3 or (torch.ones(2, device="cuda") + 1).sum().item() != 4:
        sys.exit(f"wrong result: {total}")


def check_nccl():
    """Sum up over one rank by NCCL."""
    import torch
    from torch import distributed

    distributed.init_process_group("nccl", init_method="tcp://127.0.0.1:29512", rank=0, world_size=1)
    total = torch.ones(4, device="cuda")
    distributed.all_reduce(total)
    if total.sum().item() != 4:
        sys.exit(f"wrong result: {total}")
    distributed.destroy_process_group()


def check_jax():
    """Compute on the card by JAX."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax

    if jax.default_backend() != "gpu" or float(jax.jit(lambda x: x.sum())(jax.numpy.ones(8))) != 8:
        sys.exit("JAX uses " + jax.default_backend())


def check_extension():
    """Compile a CUDA extension with the nvcc of the image."""
    import torch
    from torch.utils.cpp_extension import load_inline

    code = """
    __global__ void twice(float *x) { x[threadIdx.x] *= 2; }
    void run(torch::Tensor x) { twice<<<1, 32>>>(x.data_ptr<float>()); }
    """
    os.environ.setdefault("TORCH_EXTENSIONS_DIR", os.environ["TORCHINDUCTOR_CACHE_DIR"])
    module = load_inline("twice", "void run(torch::Tensor x);", code, functions=["run"])
    values = torch.ones(32, device="cuda")
    module.run(values)
    if values.sum().item() != 64:
        sys.exit(f"wrong result: {values}")


def check_graph():
    """Record a CUDA graph and replay it."""
    import torch

    values, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        values += 1
    graph.replay()
    graph.replay()
    torch.cuda.synchronize()
    if values.sum().item() != 8:
        sys.exit(f"wrong result: {values}")


def print_flops():
    """Print the speed of a product of matrices."""
    import torch

    size, times = 8192, 50
    one = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    for _time in range(5):
        one @ one
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _time in range(times):
        one @ one
    torch.cuda.synchronize()
    print(f"{2 * size**3 * times / (time.perf_counter() - begin) / 1e12:.0f}")


CHECKS = {
    "maps": check_maps,
    "opens": ctypes.CDLL,
    "unbound": print_unbound,
    "doctor": check_doctor,
    "sees": check_sees,
    "has": lambda module: sys.exit(importlib.util.find_spec(module) is None),
    "compile": check_compile,
    "ranks": check_ranks,
    "nccl": check_nccl,
    "jax": check_jax,
    "extension": check_extension,
    "graph": check_graph,
    "gl": check_gl,
    "flops": print_flops,
}


def main(what, *more):
    """Do what was asked for."""
    if what in CHECKS:
        CHECKS[what](*more)
        return
    if what == "dry":
        if not PTX.endswith(b"\0") or PTX.count(b"\0") != 1 or EXPECTED[2] != 13:
            sys.exit("the kernel is damaged")
        return
    begin = time.perf_counter()
    cuda = ctypes.CDLL("libcuda.so.1")
    if what == "count":
        count = ctypes.c_int()
        call(cuda, "cuInit", 0)
        call(cuda, "cuDeviceGetCount", ctypes.byref(count))
        print(count.value)
        if more and count.value != int(more[0]):
            sys.exit(f"CUDA sees {count.value} GPUs, and not {more[0]}")
    elif what == "kernel":
        run_kernel(cuda)
    else:
        first_context(cuda)
        print(f"{(time.perf_counter() - begin) * 1000:.0f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
