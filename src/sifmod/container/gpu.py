"""The GPU vendors: everything that sifmod knows about each is in one entry of a table, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Optional

from sifmod.text.version import version_order

# Whose libraries programs use: those of the host, which the runtime brings, or those of the image.
LIBRARIES = ("host", "image")

# Whether an image's compat libraries are used: where that is possible, or not at all.
_, NEVER = COMPATS = ("auto", "never")

# Parsed output of a vendor's tool: version of the driver, then model and architecture of each GPU, empty if unknown.
Reading = tuple[str, tuple[tuple[str, str], ...]]


def _unread(_said: str) -> Reading:
    return "", ()


@dataclass(frozen=True)
class Setup:
    """One way in which the runtime for SIFs gives containers the GPUs of a vendor, with the host's libraries."""

    variable: str = ""  # the runtime's variable that switches it on, without the prefix `SINGULARITY` or `APPTAINER`
    # name of all GPUs in files of the Container Device Interface (CDI), for the runtime's option --device, which has
    # no variable
    device: str = ""
    tool: str = ""  # command of the host that the runtime needs for it
    written_by: str = ""  # command line that writes the file for `device` on a node


@dataclass(frozen=True)
class Vendor:
    """One vendor of GPUs."""

    key: str  # its name in easyconfigs and site files, in the parameter `gpu`
    name: str  # its name in messages
    stack: str  # the software stack for its GPUs, as a component of images
    # option of the container runtime, without dashes, that makes its devices and the host's libraries available in a
    # container
    option: str
    device: str  # a device file that exists on nodes with a loaded driver
    # Variables that select the GPUs of a process: by the node's numbers, as Slurm does; within that list; and others,
    # which must not select again. The first of the first three that is set is Slurm's list.
    visibility: tuple[str, ...]
    gpus: str  # shell pattern of the device files, one for each GPU
    hints: str  # pattern of image names, and of lower-case scripts, for its GPUs
    setups: Mapping[str, Setup] = field(default_factory=dict)  # other ways than `option`, by their name in site files
    # devices that programs need and the driver does not make, each with the command that does
    made_devices: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()  # commands of the host that the runtime's option brings into a container
    # variables that bring its devices and the host's libraries into a container of a runtime without such an option,
    # each with the value that it has unless the user sets another; empty if none is needed
    brought_by: Mapping[str, str] = field(default_factory=dict)
    # whose libraries programs use unless the site or the easyconfig says otherwise, one of `LIBRARIES`
    libraries: str = "host"
    driver_library: str = ""  # library that must be that of the host's driver; empty if images have all that they need
    paths: tuple[str, ...] = ()  # variables that name files and folders for its libraries and compilers
    caches: tuple[str, ...] = ()  # variables with the cache folders of its libraries
    collectives: str = ""  # library for communication between its GPUs; the names of its variables begin with this name
    built_for: str = ""  # variable with the architectures for which PyTorch and its extensions are built
    tool: str = ""  # command that lists the GPUs of a host
    # arguments of the tool; each is tried if the tool is too old for the one before
    queries: tuple[tuple[str, ...], ...] = ()
    too_old: str = ""  # output of a tool that is too old for a query
    read: Callable[[str], Reading] = field(default=_unread, repr=False)  # parses the output of the tool
    # architecture by model, for old tools that do not report it
    models: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""  # name of its kernel driver
    # oldest driver that runs programs of a release of the stack: `12`, or `10.2`
    oldest_drivers: Mapping[str, str] = field(default_factory=dict)
    driver_error: str = ""  # message of programs if the driver is too old
    # release of the stack by driver, if a driver supports only releases near its own
    driver_releases: Mapping[str, str] = field(default_factory=dict)
    releases: tuple[str, ...] = ()  # releases of the stack, in order
    releases_apart: int = 0  # how far the releases of driver and programs may lie apart
    # Compat libraries are those of a newer driver, in an image: with them programs run on an older driver of the node.
    # The newest branch of them that runs on a driver, by the branch of the driver; empty if the vendor has none
    compat_branches: Mapping[int, int] = field(default_factory=dict)
    # patterns of the models on which they run, each with the newest branch that knows these; the first that fits counts
    compat_cards: Mapping[str, int] = field(default_factory=dict)
    compat_variable: str = ""  # variable of the container that keeps them from being used, with the value `NEVER`
    # oldest release of the stack by release of the driver, where that lies further apart
    oldest_releases: Mapping[str, str] = field(default_factory=dict)
    # lowest architecture that a major release of the stack supports
    lowest_architectures: Mapping[str, str] = field(default_factory=dict)

    @property
    def variable(self) -> str:
        """The runtime's variable for its option, without the prefix `SINGULARITY` or `APPTAINER`."""
        return f"_{self.option.upper()}"

    def setup(self, name: str) -> Setup:
        """Return the way that a site chose; that of `option` if the vendor has no other of this name."""
        return self.setups.get(name) or Setup(self.variable)

    def switch(self, name: str) -> str:
        """Return in words what switches on the way that a site chose."""
        chosen = self.setup(name)
        if chosen.device:
            return f"--device {chosen.device}, for which no variable stands: `singularity exec` needs it on its line"
        return f"--{name if name in self.setups else self.option}"

    @property
    def kept_out(self) -> tuple[str, str, str]:
        """What, why and remedy where the runtime brings neither its libraries nor all devices of the host."""
        return (
            f"the runtime's configuration has mount dev = minimal, and --{self.option} is off",
            f"containers do not see {self.device}, and programs find no GPU",
            "have 'mount dev = yes' set, or set gpu_libraries to 'host' in the easyconfig or the site file",
        )

    def oldest_driver(self, version: str) -> str:
        """Return the oldest driver that runs programs of a version of the stack; empty if unknown."""
        return self.oldest_drivers.get(_release(version, 1)) or self.oldest_drivers.get(_release(version, 2), "")

    def lowest_architecture(self, version: str) -> str:
        """Return the lowest architecture that a version of the stack supports; empty if unknown."""
        return self.lowest_architectures.get(_release(version, 1), "")

    def is_near(self, driver: str, version: str) -> Optional[bool]:
        """Return whether a driver supports a version of the stack; None if one of them is unknown."""
        of_driver, release = self.driver_releases.get(driver, ""), _release(version, 2)
        if of_driver not in self.releases or release not in self.releases:
            return None
        place, own = self.releases.index(release), self.releases.index(of_driver)
        oldest = self.oldest_releases.get(of_driver)
        return (
            (self.releases.index(oldest) if oldest else own - self.releases_apart) <= place <= own + self.releases_apart
        )

    def compat_problem(self, libraries: str, *, driver: str, models: Collection[str]) -> str:
        """Return why compat libraries of a version are not used with a driver and these GPUs; empty if they are.

        `runscripts/at-start.sh` decides by the same rules at each start of a container.
        """
        branch, own = _branch(driver), _branch(libraries)
        if not own or not self.compat_branches:
            return f"{libraries} is not a version of compat libraries"
        if own <= branch:
            return f"they are not newer than the driver, {driver}"
        if own > self.compat_branches.get(branch, 0):
            return f"{self.name} does not support them on driver {driver}"
        if not models:
            return "which GPU it is was not said: see --gpu"
        for model in models:
            newest = next((self.compat_cards[one] for one in self.compat_cards if re.match(one, model, re.I)), 0)
            if not newest:
                return f"{model or 'one'} is not known to be a GPU for data centres, where alone they run"
            if own > newest:
                return f"the last ones that know {model} are those of branch {newest}"
        return ""

    def driver_for(self, version: str) -> str:
        """Return in words which driver a host needs for a version of the stack; empty if unknown."""
        oldest = self.oldest_driver(version)
        if oldest:
            return f"{self.driver} {oldest} or later, for {self.stack} {version}"
        if version and self.driver_releases:
            near = f"or of a release near it, as {self.name}'s compatibility matrix says"
            return f"{self.driver} of {self.stack} {version} {near}"
        return ""


def _branch(version: str) -> int:
    """Return the branch of a driver, or of libraries of one; 0 if there is none."""
    found = re.match(r"[1-9][0-9]{2}(?![0-9])", version)
    return int(found[0]) if found else 0


def _release(version: str, numbers: int) -> str:
    return ".".join(version.split(".")[:numbers])


def _read_nvidia_smi(said: str) -> Reading:
    rows = [[cell.strip() for cell in line.split(",")] for line in said.splitlines() if line.count(",") in (1, 2)]
    # GPUs of a node may show several: the oldest one decides
    driver = min((row[1] for row in rows if re.match(r"\d+\.", row[1])), key=version_order, default="")
    told = [row[2] if len(row) > 2 and re.fullmatch(r"\d+\.\d+", row[2]) else "" for row in rows]
    return driver, tuple((row[0], architecture) for row, architecture in zip(rows, told))


def _read_rocm_smi(said: str) -> Reading:
    found: dict[int, dict[str, str]] = {}
    for number, key, value in re.findall(r"^GPU\[(\d+)\]\s*:\s*([^:]+?)\s*:\s*(.*?)\s*$", said, re.MULTILINE):
        found.setdefault(int(number), {})[key.lower()] = value
    gpus = []
    for _number, facts in sorted(found.items()):
        told = facts.get("gfx version", "")
        model = facts.get("card series") or facts.get("card model") or "unknown"
        gpus.append((model, told if re.fullmatch(r"gfx\w+", told) else ""))
    driver = re.search(r"^Driver version:\s*(\S+)", said, re.MULTILINE)
    return driver[1] if driver else "", tuple(gpus)


_AMD = Vendor(
    key="amd",
    name="AMD",
    stack="ROCm",
    option="rocm",
    device="/dev/kfd",
    gpus="/dev/dri/renderD*",
    # images have all that programs need, and an older ROCm of the host must not come before (apptainer#1621)
    libraries="image",
    visibility=("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    paths=("ROCM_PATH", "NCCL_TOPO_FILE"),
    caches=("MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR"),
    collectives="RCCL",
    built_for="PYTORCH_ROCM_ARCH",
    hints="rocm",
    # AMD Container Toolkit, "Running Workloads"
    setups=MappingProxyType(
        {"cdi": Setup(device="amd.com/gpu=all", written_by="amd-ctk cdi generate --output=/etc/cdi/amd.json")}
    ),
    commands=("rocm-smi", "rocminfo"),  # rocmliblist.conf of Apptainer and SingularityCE
    tool="rocm-smi",
    queries=(("--showproductname", "--showdriverversion"),),
    read=_read_rocm_smi,
    # ROCm before 6.0 does not report these (AMD, "Accelerator and GPU hardware specifications")
    models=MappingProxyType(
        {
            "MI50": "gfx906",
            "MI60": "gfx906",
            "MI100": "gfx908",
            "MI210": "gfx90a",
            "MI250": "gfx90a",
            "MI300": "gfx942",
            # for nodes that are described in words
            "MI308": "gfx942",
            "MI325": "gfx942",
            "MI350": "gfx950",
            "MI355": "gfx950",
        }
    ),
    driver="amdgpu",
    # repo.radeon.com/amdgpu: from ROCm 7.0 on, the driver's own releases are 30.10, 30.20 and 30.30. A driver supports
    # two releases in either direction (AMD, "User and kernel-space support matrix"), and 30.30 ROCm 6.3 to 7.2
    # ("AMD GPU Driver (amdgpu)", compatibility matrix of 30.30.3)
    driver_releases=MappingProxyType(
        {
            "5.18.13": "5.4",
            "6.0.5": "5.5",
            "6.1.5": "5.6",
            "6.2.4": "5.7",
            "6.3.6": "6.0",
            "6.7.0": "6.1",
            "6.8.5": "6.2",
            "6.10.5": "6.3",
            "6.12.12": "6.4",
            "6.14.14": "7.0",
            "6.16.6": "7.1",
            "6.16.13": "7.2",
        }
    ),
    releases=(
        *("5.0", "5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7"),
        *("6.0", "6.1", "6.2", "6.3", "6.4", "7.0", "7.1", "7.2"),
    ),
    releases_apart=2,
    oldest_releases=MappingProxyType({"7.2": "6.3"}),
)

_NVIDIA = Vendor(
    key="nvidia",
    name="NVIDIA",
    stack="CUDA",
    option="nv",
    device="/dev/nvidiactl",
    gpus="/dev/nvidia[0-9]*",
    made_devices=MappingProxyType({"/dev/nvidia-uvm": "nvidia-modprobe -u -c=0"}),
    driver_library="libcuda.so.1",
    visibility=("CUDA_VISIBLE_DEVICES",),
    paths=("CUDA_HOME", "CUDA_PATH", "NCCL_TOPO_FILE"),
    caches=("CUDA_CACHE_PATH",),
    collectives="NCCL",
    built_for="TORCH_CUDA_ARCH_LIST",
    hints=r"cuda|nvidia|\bngc\b|-ngc-",
    # --nvccli implies --nv since Apptainer 1.1 and in SingularityCE. NVIDIA Container Toolkit, "Support for Container
    # Device Interface"
    setups=MappingProxyType(
        {
            "nvccli": Setup("_NVCCLI", tool="nvidia-container-cli"),
            "cdi": Setup(
                device="nvidia.com/gpu=all", written_by="nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
            ),
        }
    ),
    # nvliblist.conf of Apptainer and SingularityCE
    commands=(
        *("nvidia-smi", "nvidia-debugdump", "nvidia-persistenced"),
        *("nvidia-cuda-mps-control", "nvidia-cuda-mps-server"),
    ),
    # 98-nvidia.sh (4.1.2) does nothing without the first, and brings by the second: with `all`, as --nv, also the
    # libraries of graphics and video
    brought_by=MappingProxyType({"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}),
    tool="nvidia-smi",
    queries=(
        ("--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"),
        ("--query-gpu=name,driver_version", "--format=csv,noheader"),
    ),
    too_old="not a valid field",
    read=_read_nvidia_smi,
    # drivers before 470 do not report these (NVIDIA, "CUDA GPU Compute Capability")
    models=MappingProxyType(
        {
            "K20": "3.5",
            "K40": "3.5",
            "K80": "3.7",
            "M40": "5.2",
            "M60": "5.2",
            "P100": "6.0",
            "P40": "6.1",
            "P4": "6.1",
            "V100": "7.0",
            "T4": "7.5",
            "A100": "8.0",
            "A40": "8.6",
            # for nodes that are described in words
            "A30": "8.0",
            "A10": "8.6",
            "L4": "8.9",
            "L40": "8.9",
            "L40S": "8.9",
            "H100": "9.0",
            "H200": "9.0",
            "GH200": "9.0",
            "B200": "10.0",
            "GB200": "10.0",
            "B300": "10.3",
            "GB300": "10.3",
            "A6000": "8.6",
            "RTX PRO 6000": "12.0",
        }
    ),
    driver="NVIDIA",
    # for Linux; since CUDA 11 per major release, thanks to minor version compatibility (NVIDIA, "CUDA Toolkit Release
    # Notes", tables 2 and 3; "CUDA Compatibility")
    oldest_drivers=MappingProxyType(
        {
            "13": "580",
            "12": "525.60.13",
            "11": "450.80.02",
            "10.2": "440.33",
            "10.1": "418.39",
            "10.0": "410.48",
            "9.2": "396.26",
            "9.1": "390.46",
            "9.0": "384.81",
            "8.0": "375.26",
        }
    ),
    driver_error="CUDA driver version is insufficient",
    # NVIDIA, "CUDA Compatibility" v615 of September 2026, "Use the Right CUDA Forward Compatibility Package": on 535,
    # 570, 580, 590, 595 and 610 all newer ones. The others have reached their end of life: up to the last release of
    # CUDA whose images (nvidia/cuda) name them in NVIDIA_REQUIRE_CUDA: 12.0 for 520, 12.1 for 450, 510 and 515, 12.4
    # for 525, 12.8 for 470, 12.9 for 560, 13.0 for 565, 13.1 for 550 and 575. From 12.9 on the libraries have the same
    # lists in an ELF note, `.note.cuda.fwd_compatibility` (NVIDIA/nvidia-container-toolkit, test data)
    compat_branches=MappingProxyType(
        {
            **{450: 530, 470: 570, 510: 530, 515: 530, 520: 525, 525: 550, 550: 590, 560: 575, 565: 580, 575: 590},
            **dict.fromkeys((535, 570, 580, 590, 595, 610), 999),
        }
    ),
    # on GPUs for data centres alone (the same page, "Forward Compatibility"); without RTX cards of some servers, whose
    # names do not tell, and GB10 (eugr/spark-vllm-docker#266). The last branch for Kepler is 470, and for Maxwell,
    # Pascal and Volta 580 (NVIDIA, "CUDA Toolkit, Driver, and Architecture Matrix"). Drivers before 470 do not begin
    # names with NVIDIA
    compat_cards=MappingProxyType(
        {
            r"(NVIDIA )?Tesla K": 470,
            r"(NVIDIA )?(Tesla [MPV]|[PV]100(?![0-9])|(P4|P40)$)": 580,
            r"(NVIDIA )?(Tesla T|[ABHL][0-9]|G[BH][0-9]00|T4$)": 999,
        }
    ),
    compat_variable="SIFMOD_CUDA_COMPAT",
    # the libraries of a release (NVIDIA, "CUDA Toolkit Release Notes")
    lowest_architectures=MappingProxyType({"13": "7.5", "12": "5.0", "11": "3.5", "10": "3.0", "9": "3.0", "8": "2.0"}),
)

# Images are matched in this order: one for AMD's GPUs may contain CUDA packages that it does not use.
VENDORS: Mapping[str, Vendor] = MappingProxyType({vendor.key: vendor for vendor in (_AMD, _NVIDIA)})


# Ways to give containers GPUs, as site files name them: those of each vendor's option first.
SETUPS: tuple[str, ...] = tuple(
    dict.fromkeys(
        (*(vendor.option for vendor in VENDORS.values()), *(name for one in VENDORS.values() for name in one.setups))
    )
)


def uses_compat(parameters: Mapping[str, Any]) -> bool:
    """Return whether an image's compat libraries may be used, by parameters of an easyconfig or a site's defaults."""
    return parameters.get("cuda_compat") != NEVER


def vendor_of(stacks: Collection[str]) -> str:
    """Return the key of the vendor of one of the stacks; empty if there is none."""
    return next((key for key, vendor in VENDORS.items() if vendor.stack in stacks), "")
