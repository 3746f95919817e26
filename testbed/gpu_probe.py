"""Calls the CUDA driver API through ctypes: for gpu-check, in the container and on the host; Python 3.6 or later.

gpu_probe.py count [N]  print how many GPUs CUDA sees, and fail if these are not N
gpu_probe.py kernel     run a kernel on the first GPU and check its result
gpu_probe.py time       print the milliseconds of the first CUDA call (cuInit and a context)
gpu_probe.py dry        all of this up to the driver: check what would be sent to it
"""

import ctypes
import sys
import time

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


def main(what, *more):
    """Do what was asked for."""
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
