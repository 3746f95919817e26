"""What is measured: each row is a way of ours and what people use today for the same."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from bench.data import DEMO_MODULE, Data, write_big_wheel, write_sources, write_wheels
from bench.footprint import footprint
from bench.installations import copy_tool
from bench.lumi import Recipe
from bench.measure import Command, bash
from bench.shpc import VERSION, Tools

IMAGE_MB = 4096


@dataclass(frozen=True, kw_only=True)
class Row:
    """Commands that do the same; the first is ours.

    goal: what is to be reached, in words. figures: which figures beside the time are shown.
    """

    title: str
    goal: str
    commands: tuple[Command, ...]
    figures: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Rows of the same commands at several sizes.

    figures: which figures beside the time are kept.
    """

    key: str
    title: str
    unit: str
    rows: Callable[[Data], Iterator[tuple[float, tuple[Command, ...]]]]
    figures: tuple[str, ...] = ()


def _size(path: Path) -> Callable[[], Mapping[str, float]]:
    return lambda: {"size": float(path.stat().st_size)}


def _repeated(command: str, times: int) -> str:
    """Return the bash loop that runs a command several times."""
    return f"for ((i = 0; i < {times}; i++)); do {command}; done"


def _loading(tree: Path, module: str, times: int) -> str:
    return f"module use {tree}; {_repeated(f'module load {module}; module unload {module}', times)}"


def _without_cache(tree: Path) -> str:
    """Return the bash commands after which Lmod knows this tree alone, and reads it anew each time."""
    return f"export LMOD_CACHED_LOADS=no LMOD_IGNORE_CACHE=1; module unuse $MODULEPATH; module use {tree}"


def _install_space(data: Data, image: Path) -> tuple[str, Path, str]:
    """Return the settings for `eb`, the path of a plain copy, and the command that removes what both have left."""
    prefix, copy = data.scratch / "eb", data.scratch / "copy.sif"
    space = f"export EASYBUILD_PREFIX={prefix} EASYBUILD_SOURCEPATH={image.parent}:{data.images}"
    return space, copy, f"rm -rf {prefix} {copy}"


def _installs(data: Data, megabytes: int) -> tuple[Command, ...]:
    image = data.big_image(megabytes)
    ours = data.easyconfig("Big", "sources = ['big.sif']\n")
    small = data.easyconfig("Small", f"sources = ['demo.sif']\nsource_urls = ['file://{data.images}']\n")
    space, copy, clean = _install_space(data, image)
    return (
        Command(label="eb, ContainerImage", script=f"{space}; eb {ours}", before=clean),
        Command(label="eb, MakeCp and cp -L", script=f"{space}; eb {data.makecp_easyconfig()}", before=clean),
        Command(label="cp", script=f"cp {image} {copy}", before=clean),
        Command(label="sha256sum", script=f"sha256sum {image}", before=clean),
        Command(label="eb, ContainerImage, small image", script=f"{space}; eb {small}", before=clean),
    )


def install(data: Data) -> Row:
    return Row(
        title=f"Install a SIF of {IMAGE_MB // 1024} GB",
        goal="at least 4 times as fast as MakeCp; read once, written once",
        commands=_installs(data, IMAGE_MB),
        figures=("read", "written"),
    )


def link(data: Data) -> Row:
    image = data.big_image(IMAGE_MB)
    ours = data.easyconfig("BigLink", "sources = ['big.sif']\nimage_mode = 'link'\n")
    space, copy, clean = _install_space(data, image)
    return Row(
        title=f"The same with image_mode = 'link', {IMAGE_MB // 1024} GB",
        goal="constant time",
        commands=(
            Command(label="eb, ContainerImage, link", script=f"{space}; eb {ours}", before=clean),
            Command(label="cp", script=f"cp {image} {copy}", before=clean),
        ),
        figures=("read", "written"),
    )


# the options that make-squashfs gives to mksquashfs, but for the order of the files
PACKING = "-noappend -no-xattrs -no-progress -mem 256M -b 256K -comp zstd -Xcompression-level 5 -processors $(nproc)"


def _packings(data: Data, root: Path, *, before: str = "") -> tuple[Command, ...]:
    packed, reference = root / "user-software.squashfs", data.scratch / "reference.squashfs"
    clean = f"rm -f {packed}* {reference}; {before}"
    return (
        Command(label="make-squashfs", script=f"{root}/bin/make-squashfs", before=clean, after=_size(packed)),
        Command(
            label="mksquashfs -processors 1",
            script=f"mksquashfs {root}/user-software {reference} -processors 1 -no-progress",
            before=clean,
            after=_size(reference),
        ),
    )


def pack(data: Data) -> Row:
    root = data.with_torch()
    ours, reference = _packings(data, root)
    small = "--block-size=128K --level=6"
    return Row(
        title="Pack a virtual environment with PyTorch",
        goal="9 times as fast, 0.95 of the size; at most 1.12 of mksquashfs alone",
        commands=(
            ours,
            reference,
            replace(ours, label=f"make-squashfs {small}", script=f"{ours.script} {small}"),
            replace(
                reference,
                label="mksquashfs alone, as make-squashfs calls it",
                script=f"mksquashfs {root}/user-software {data.scratch}/reference.squashfs {PACKING}",
            ),
        ),
        figures=("size", "processor time"),
    )


@dataclass(frozen=True)
class SlowFolder:
    """A folder shown with 1 ms for each metadata operation and 0.5 ms for each read, mounted anew for each run."""

    source: Path
    mountpoint: Path
    data: Data

    def mount(self) -> str:
        command = f"{self.data.folder}/slowfs {self.source} {self.mountpoint} 1000 500 -f"
        words = self.data.scratch / "slowfs"
        return (
            # a new file: the one before may still be written to by what is just ending
            f"{self.unmount()}; mkdir -p {self.mountpoint}; rm -f {words}; "
            f"setsid {command} </dev/null >/dev/null 2>{words} & echo $! >{words}.pid; "
            f"until mountpoint -q {self.mountpoint}; do sleep 0.02; done"
        )

    def unmount(self) -> str:
        once = f"! mountpoint -q {self.mountpoint} || fusermount3 -u {self.mountpoint} || sleep 0.5"
        return f"for i in 1 2 3 4 5; do {once}; done"

    def operations(self) -> Mapping[str, float]:
        """Metadata operations, reads and bytes since it was mounted."""
        words = self.data.scratch / "slowfs"
        os.kill(int(Path(f"{words}.pid").read_text()), signal.SIGUSR1)
        time.sleep(0.2)
        found = re.findall(r"metadata (\d+) reads (\d+) bytes (\d+)", words.read_text())[-1]
        return dict(zip(("metadata operations", "reads", "bytes"), map(float, found)))


def slow_pack(data: Data) -> Row:
    data.torch()
    root = data.with_torch()
    bash(f"mv {root}/user-software {data.scratch}/moved")
    slow = SlowFolder(data.scratch / "moved", root / "user-software", data)
    return Row(
        title="Pack it from a file system with 1 ms for each operation",
        goal="5 times as fast",
        commands=_packings(data, root, before=slow.mount()),
        figures=("size",),
    )


def compare(data: Data) -> Row:
    """What `make-squashfs --remove-directory` does before it removes, with the bytes in one stream or file by file."""
    root = data.with_torch()
    bash(f"rm -f {root}/user-software.squashfs*; {root}/bin/make-squashfs")
    functions = f"set -euo pipefail; source {root}/share/container.sh; source {root}/share/packing.sh"
    script = f"bash -pc '{functions}; %s' {root}/bin/make-squashfs"
    mounts = '$(bind_source "$packed"):$user_software:ro,image-src=/,$(bind_source "$directory"):/mnt:ro'
    listing = '< <(LC_ALL=C unsquashfs -lln "$packed")'
    return Row(
        title="Compare all contents of a packed PyTorch with the directory",
        goal="half the time of reading it through the mount",
        commands=(
            Command(label="one stream", script=script % 'compare_trees "$packed" "$directory" full'),
            Command(
                label="through the mount",
                script=script % f'trees "{mounts}" compare /mnt "$user_software" full {listing}',
            ),
        ),
        figures=("processor time",),
    )


def unpack(data: Data) -> Row:
    root = data.with_torch()
    bash(f"rm -f {root}/user-software.squashfs*; {root}/bin/make-squashfs --remove-directory")
    target = data.scratch / "unpacked"
    clean = f"rm -rf {root}/user-software {root}/user-software.unpacked {target}"
    return Row(
        title="Unpack it",
        goal="within 1.1",
        commands=(
            Command(label="unmake-squashfs", script=f"{root}/bin/unmake-squashfs", before=clean),
            Command(
                label="unsquashfs", script=f"unsquashfs -q -n -d {target} {root}/user-software.squashfs", before=clean
            ),
        ),
    )


def module(data: Data) -> Row:
    """Load and unload; the reference sets the same variables with setenv, and PATH."""
    _ = data.root
    shown = bash(f"module use {data.prefix}/modules/all; module load {DEMO_MODULE}; env")
    names = r"(?:SIF|CONTAINERROOT|RUNSCRIPTS|SINGULARITY|APPTAINER|EBROOT|EBVERSION|EBDEVEL)\w*"
    lines = [
        f"setenv({name!r}, {value!r})".replace("'", '"') for name, value in re.findall(rf"(?m)^({names})=(.*)$", shown)
    ]
    plain = data.scratch / "modules" / "plain" / "1.lua"
    plain.parent.mkdir(parents=True, exist_ok=True)
    plain.write_text("\n".join(lines) + f'\nprepend_path("PATH", "{data.root}/bin")\n')
    ours, times = data.prefix / "modules/all", 10
    return Row(
        title="module load and module unload",
        goal="within 1.2",
        commands=(
            Command(label="ours", script=_loading(ours, DEMO_MODULE, times), times=times),
            Command(label="setenv only", script=_loading(plain.parents[1], "plain/1", times), times=times),
        ),
    )


def wrapper(data: Data) -> Row:
    data.clear()
    bash(f"EASYBUILD_PREFIX={data.prefix} eb Python-3.11-demo-singularity.eb --rebuild")
    times = 20

    def script(command: str) -> str:
        return f"{data.load}; {_repeated(command, times)}"

    return Row(
        title="python -c pass",
        goal="10 ms more at most",
        commands=(
            Command(label="wrapper", script=script("python -c pass"), times=times),
            Command(label="singularity exec", script=script("singularity exec $SIF python -c pass"), times=times),
        ),
    )


def long_arguments(data: Data) -> Row:
    link = data.root / "user-bin" / "python3"
    bash(f"mkdir -p {link.parent}; ln -sfT ../share/user-command {link}")
    times = 10
    given = 'words=($(seq -f %030.0f 10000)) program=$(yes "x = 1 # nothing" | head -c 100000)'
    ways = {
        "python": "python",
        "in-container": "in-container python",
        "start-shell -c": "start-shell -c 'exec python \"$@\"' -",
        "a command of user software": str(link),
        "singularity exec": "singularity exec $SIF python",
    }
    return Row(
        title="python -c pass with 10,000 arguments of 30 characters, or with a program of 100,000 characters",
        goal="100 ms more at most",
        commands=tuple(
            Command(
                label=f"{label}, {words}",
                script=f"{data.load}; {given}; {_repeated(f'{way} {more}', times)}",
                times=times,
            )
            for words, more in (("arguments", '-c pass "${words[@]}"'), ("a program", '-c "$program"'))
            for label, way in ways.items()
        ),
    )


def distributed(data: Data) -> Row:
    _ = data.root
    times = 20

    def in_a_task(command: str) -> str:
        return f"{data.load}; srun -n1 singularity exec $SIF bash -c '{_repeated(command, times)}'"

    return Row(
        title="Start of one rank, in a task of Slurm",
        goal="20 ms more at most",
        commands=(
            Command(
                label="conda-python-distributed", script=in_a_task("conda-python-distributed -c pass"), times=times
            ),
            Command(label="python", script=in_a_task("python -c pass"), times=times),
        ),
    )


def _shared(data: Data, ranks: int) -> Row:
    root, programs = data.root, 4
    step = f"{data.load}; %s srun -N1 -n{ranks} --overcommit"
    shared, own = step % "SIFMOD_SHARE_CONTAINER=1", step % "SIFMOD_SHARE_CONTAINER=0"

    def each(command: str) -> str:
        return f"bash -c '{_repeated(command, programs)}'"

    def costs(start: str) -> Callable[[], Mapping[str, float]]:
        # the same in each run, and it takes longer than the run
        return lru_cache(maxsize=1)(lambda: footprint(start, root / "share/hold-container", ranks))

    alone = "singularity exec $SIF python -c pass"
    return Row(
        title=f"python -c pass, {ranks} {'rank' if ranks == 1 else 'ranks'} on a node",
        goal="half the time for the first program of a step, a sixth for later ones, a quarter of the memory",
        commands=(
            Command(
                label="one container for all", script=f"{shared} python -c pass", after=costs(f"{shared} in-container")
            ),
            Command(label="a container each", script=f"{own} {alone}", after=costs(f"{own} singularity exec $SIF")),
            Command(
                label="one for all, each of 4 programs in a row",
                script=f"{shared} {each('python -c pass')}",
                times=programs,
            ),
            Command(
                label="a container each, each of 4 programs in a row", script=f"{own} {each(alone)}", times=programs
            ),
        ),
        figures=("MB beside the programs", "FUSE daemons", "mounts"),
    )


def share_1(data: Data) -> Row:
    return _shared(data, 1)


def share_4(data: Data) -> Row:
    return _shared(data, 4)


def share_16(data: Data) -> Row:
    return _shared(data, 16)


def share_64(data: Data) -> Row:
    return _shared(data, 64)


def packages(data: Data) -> Row:
    """200 packages from a folder, with an empty cache; pip has no cache for files."""
    empty, cache = data.empty(), data.scratch / "uv-cache"
    names = write_wheels(data.scratch / "wheels", 200)
    (data.scratch / "list.txt").write_text("\n".join(names) + "\n")
    target = data.root / "user-software"
    before = f"rm -rf {cache} {target}; cp -a {empty} {target}"
    install = f"install --quiet --no-index --find-links {data.scratch}/wheels -r {data.scratch}/list.txt"
    uv = f"UV_CACHE_DIR={cache} UV_COMPILE_BYTECODE=%d"

    def files() -> Mapping[str, float]:
        return {"files": float(bash(f"find {target} ! -type d | wc -l"))}

    def command(label: str, script: str) -> Command:
        return Command(label=label, script=f"{data.load}; {script}", before=before, after=files)

    return Row(
        title="Install 200 packages into user software",
        goal="a quarter of pip's time; at most 1 s more than uv alone",
        commands=(
            command("uv", f"{uv % 0} uv pip {install}"),
            command(
                "uv alone, which replaces the image's packages",
                f"{uv % 0} start-shell -c 'UV_EXCLUDE= uv pip {install}'",
            ),
            command("uv, which also compiles the modules as pip does", f"{uv % 1} uv pip {install}"),
            command("pip", f"pip {install}"),
        ),
        figures=("files",),
    )


def imports(data: Data) -> Row:
    kept = data.torch()
    root = data.with_torch()
    shown = data.scratch / "shown"
    bash(f"""rm -rf {shown}; mkdir {shown}; rm -f {root}/user-software.squashfs*
        {root}/bin/make-squashfs; cp {root}/user-software.squashfs {shown}/packed
        {root}/bin/make-squashfs --replace --import=torch; cp {root}/user-software.squashfs {shown}/traced
        mksquashfs {kept} {shown}/gzip -processors 2 -no-progress; cp -a {kept} {shown}/loose""")
    slow = SlowFolder(shown, data.scratch / "slow", data)

    def script(folder: Path, name: str, option: str) -> str:
        python = "/user-software/venv/demo/bin/python"
        binds = f"-B {folder}/{name}:/user-software:{option}"
        return f"singularity exec {binds} {data.images}/demo.sif {python} -B -c 'import torch'"

    def command(label: str, name: str, option: str) -> Command:
        words = script(slow.mountpoint, name, option)
        return Command(label=label, script=words, before=slow.mount(), after=slow.operations)

    return Row(
        title="import torch, cold, from a file system with 1 ms for each operation",
        goal="within 1.25 of the loose directory from the local disk",
        commands=(
            command("make-squashfs", "packed", "image-src=/"),
            command("make-squashfs --import=torch", "traced", "image-src=/"),
            command("mksquashfs, gzip", "gzip", "image-src=/"),
            command("loose directory", "loose", "ro"),
            Command(label="loose directory, from the local disk", script=script(shown, "loose", "ro")),
        ),
        figures=("metadata operations", "reads"),
    )


def mounts(data: Data) -> Row:
    """The program that mounts: the one of this machine, and the newer one of the testbed (`testbed/setup --all`)."""
    kept = data.torch()
    root = data.with_torch()
    bash(f"rm -f {root}/user-software.squashfs*; {root}/bin/make-squashfs")
    newer = data.testbed / "squashfuse-new" / "bin"

    def command(program: str, before: str, source: Path, option: str) -> Command:
        said = re.search(r"squashfuse ([0-9.]+)", bash(f"{program} --help 2>&1 || true")) if program else None
        python = "/user-software/venv/demo/bin/python"
        start = f"singularity exec -B {source}:/user-software:{option} {data.images}/demo.sif"
        label = f"packed, mounted by squashfuse {said[1] if said else 'of an unknown release'}" if program else "loose"
        return Command(label=label, script=f"{before}{start} {python} -B -c 'import torch'")

    packed = root / "user-software.squashfs"
    newest = [command(str(newer / "squashfuse_ll"), f"PATH={newer}:$PATH ", packed, "image-src=/")]
    return Row(
        title="import torch from the local disk, mounted anew",
        goal="the loose directory within 0.8 of it",
        commands=(
            command("squashfuse_ll", "", packed, "image-src=/"),
            *(newest if newer.is_dir() else []),
            command("", "", kept, "ro"),
        ),
    )


def _keep(root: Path, place: Path) -> Path:
    """Keep user software as it is now, by hard links: what changes it writes new files."""
    bash(f"rm -rf {place}; mkdir -p {place}; cp -al {root}/user-software* {place}")
    return place


def _put_back(root: Path, place: Path) -> str:
    """Return the bash commands that put back user software that was kept."""
    # folders of a directory that is not in use are read-only
    clear = f"chmod -R u+w {root}/user-software 2>/dev/null || true; rm -rf {root}/user-software*"
    return f"{clear}; cp -al {place}/. {root}"


def _layered(data: Data, root: Path, counts: Sequence[int]) -> dict[int, Path]:
    """Pack user software and add layers: the first below an empty directory, each other with a small package.

    Return what is kept of it with as many layers; all that was there before is in the lowest.
    """
    wheels, kept = data.scratch / "wheels", {}
    names = write_wheels(wheels, max(counts))
    for number in range(max(counts) + 1):
        if number > 1:
            bash(f"{root}/bin/pip install --quiet --no-index --find-links {wheels} {names[number - 2]}")
        if number != 1:
            bash(f"{root}/bin/make-squashfs --remove-directory")
        if number:
            bash(f"{root}/bin/add-layer")
        if number in counts:
            kept[number] = _keep(root, data.scratch / f"layers-{number}")
    return kept


def _with_layers(root: Path, kept: Mapping[int, Path], script: str, times: int = 1) -> tuple[Command, ...]:
    """Return the commands that run a script with as many layers, most of them first, and at last with none."""
    return tuple(
        Command(
            label=f"{count} {'layer' if count == 1 else 'layers'}" if count else "no layer, packed",
            script=script,
            before=_put_back(root, kept[count]),
            times=times,
        )
        for count in sorted(kept, reverse=True)
    )


def layer_imports(data: Data) -> Row:
    root = data.with_torch()
    kept = _layered(data, root, (0, 1, 2, 4))
    return Row(
        title="import torch, which is in the lowest layer",
        goal="within 1.05 of no layer",
        commands=_with_layers(root, kept, f"{root}/bin/python -B -c 'import torch'"),
    )


def layer_starts(data: Data) -> Row:
    data.empty()
    root, times = data.root, 20
    directory = _keep(root, data.scratch / "directory")
    script = f"{data.load}; {_repeated('python -c pass', times)}"
    commands = _with_layers(root, _layered(data, root, (0, 1, 2, 4)), script, times)
    return Row(
        title="python -c pass with packed layers below an empty directory",
        goal="20 ms a layer at most; the runtime waits 25",
        commands=(
            *commands,
            Command(label="no layer, a directory", script=script, before=_put_back(root, directory), times=times),
        ),
    )


def _additions(data: Data, root: Path, wheel: Path) -> tuple[Command, ...]:
    """Return ways to add a package to packed user software, which `root` has as a directory."""
    bash(f"{root}/bin/make-squashfs --remove-directory")
    before = _put_back(root, _keep(root, data.scratch / "packed"))

    def command(*verbs: str) -> Command:
        script = "; ".join(f"{root}/bin/{verb}" for verb in verbs)
        label = ", ".join(verb.partition(" ")[0] for verb in verbs)
        return Command(label=label, script=f"set -e; {script}", before=before)

    install = f"install --quiet --no-index {wheel}"
    return (
        command("add-layer", f"pip {install}", "make-squashfs"),
        command("unmake-squashfs", f"pip {install}", "make-squashfs --replace"),
        command("add-layer", f"uv pip {install}", "make-squashfs"),
    )


def add_package(data: Data) -> Row:
    root = data.with_torch()
    return Row(
        title="Add a package of 50 MB to packed PyTorch",
        goal="7 times as fast with pip, 10 times with uv",
        commands=_additions(data, root, write_big_wheel(data.scratch / "wheels", 50)),
        figures=("processor time", "read", "written"),
    )


def _at_once(words: str, command: str) -> str:
    """Return bash that runs the command for each word, which is $m, all at once; it fails if one of them does."""
    return f"for m in {words}; do {command} & pids+=($!); done; for p in ${{pids[@]}}; do wait $p || exit; done"


def starts(data: Data) -> Row:
    """What a file system sees when ranks of a node start."""
    kept = data.torch()
    root = data.with_torch()
    shown = data.scratch / "shown"
    bash(f"""rm -rf {shown}; mkdir {shown}; rm -f {root}/user-software.squashfs*
        {root}/bin/make-squashfs; cp {root}/user-software.squashfs {shown}/packed
        cp {data.images}/demo.sif {shown}/image; cp -a {kept} {shown}/loose""")
    slow = SlowFolder(shown, data.scratch / "slow", data)
    python = "/user-software/venv/demo/bin/python -B -c 'import torch'"

    def start(folder: Path, name: str) -> str:
        option = "ro" if name == "loose" else "image-src=/"
        return f"singularity exec -B {folder}/{name}:/user-software:{option} {folder}/image"

    def command(label: str, script: str) -> Command:
        return Command(label=label, script=script, before=slow.mount(), after=slow.operations)

    def packed_size() -> Mapping[str, float]:
        return {"size": float(sum((shown / name).stat().st_size for name in ("packed", "image")))}

    loose, packed = start(slow.mountpoint, "loose"), start(slow.mountpoint, "packed")
    return Row(
        title="import torch, image and user software from a file system with 1 ms for each operation",
        goal="the further ranks in one container ask for nothing",
        commands=(
            command("packed, 1 rank", f"{packed} {python}"),
            command("packed, 4 ranks, a container each", _at_once("1 2 3 4", f"{packed} {python}")),
            command("packed, 4 ranks in one container", f"{packed} bash -c {shlex.quote(_at_once('1 2 3 4', python))}"),
            command("loose, 1 rank", f"{loose} {python}"),
            command("loose, 4 ranks, a container each", _at_once("1 2 3 4", f"{loose} {python}")),
            Command(
                label="packed, 1 rank, from the local disk",
                script=f"{start(shown, 'packed')} {python}",
                after=packed_size,
            ),
            Command(label="loose, 1 rank, from the local disk", script=f"{start(shown, 'loose')} {python}"),
        ),
        figures=("metadata operations", "reads", "bytes", "size"),
    )


def _avail(data: Data, names: int, versions: int) -> Row:
    """2,000 modules: our tree holds modulefiles only; in the other one wrappers lie beside each modulefile."""
    text = (data.prefix / "modules/all" / f"{DEMO_MODULE}.lua").read_text() if data.root else ""
    ours, beside = data.scratch / "avail-ours", data.scratch / "avail-beside"
    for name, version in itertools.product(range(names), range(versions)):
        (ours / f"tool{name}").mkdir(parents=True, exist_ok=True)
        (ours / f"tool{name}" / f"{version}.lua").write_text(text)
        folder = beside / f"tool{name}" / str(version)
        (folder / "bin").mkdir(parents=True)
        (folder / "module.lua").write_text(text)
        for number in range(12):
            path = folder / "bin" / f"tool{number}"
            path.write_text("#!/bin/bash\n")
            path.chmod(0o755)
    return Row(
        title=f"module avail with {names} names of {versions} versions and no cache",
        goal="5 times as fast",
        commands=(
            Command(label="modulefiles only", script=f"{_without_cache(ours)}; module -t avail"),
            Command(label="wrappers beside them", script=f"{_without_cache(beside)}; module -t avail"),
        ),
    )


def avail(data: Data) -> Row:
    return _avail(data, names=200, versions=10)


def avail_many(data: Data) -> Row:
    return _avail(data, names=2000, versions=1)


def _against_shpc(data: Data, count: int, goal: str) -> Row:
    tools = Tools(data, count)
    tools.make()
    title = "Install a tool without Python" if count == 1 else f"Install {count} of them"
    return Row(
        title=title,
        goal=goal,
        commands=(
            Command(label="eb, ContainerImage", script=tools.with_eb(), before=tools.clean),
            Command(label="shpc install, which runs no check", script=tools.with_shpc(), before=tools.clean),
            Command(label="eb, Bundle of nothing", script=tools.with_eb("empty"), before=tools.clean),
        ),
        figures=("processor time", "read", "written"),
    )


def lumi(recipe: Path) -> Callable[[Data], Row]:
    """Return the row of one of LUMI's recipes."""

    def lumi(data: Data) -> Row:
        found = Recipe(data, recipe)
        found.make()
        return Row(
            title=f"Install LUMI's {recipe.name} with the testbed's image",
            goal="as fast, with hashing and checks",
            commands=(
                Command(label="eb, ContainerImage", script=found.ours, before=found.clean),
                Command(label="eb, LUMI's, --skip-sanity-check", script=found.theirs, before=found.clean),
            ),
            figures=("read", "written"),
        )

    return lumi


def shpc_one(data: Data) -> Row:
    return _against_shpc(data, 1, "at most 350 ms of processor time more than EasyBuild alone")


def shpc_few(data: Data) -> Row:
    return _against_shpc(data, 4, "at most 350 ms of processor time a tool more than EasyBuild alone")


def shpc_many(data: Data) -> Row:
    return _against_shpc(data, 20, "at most 350 ms of processor time a tool more than EasyBuild alone")


def _installed_by_both(data: Data) -> Tools:
    tools = Tools(data, 20)
    tools.make()
    bash(f"{tools.clean}; {tools.with_eb()}")
    bash(tools.with_shpc())
    return tools


def shpc_avail(data: Data) -> Row:
    tools = _installed_by_both(data)
    times = 10

    def script(tree: Path) -> str:
        return f"{_without_cache(tree)}; {_repeated('module -t avail', times)}"

    return Row(
        title="module avail with 20 tools and no cache",
        goal="faster",
        commands=(
            Command(label="sifmod's modules", script=script(tools.ours), times=times),
            Command(label="SHPC's modules", script=script(tools.theirs), times=times),
        ),
    )


def shpc_load(data: Data) -> Row:
    tools = _installed_by_both(data)
    times = 10
    return Row(
        title="module load and module unload of a tool",
        goal="as fast",
        commands=(
            Command(label="sifmod's module", script=_loading(tools.ours, f"tool0/{VERSION}", times), times=times),
            Command(label="SHPC's module", script=_loading(tools.theirs, f"bench/tool0/{VERSION}", times), times=times),
        ),
    )


def shpc_start(data: Data) -> Row:
    tools = _installed_by_both(data)
    times = 20
    samtools, image = "samtools --version-only", data.images / "samtools.sif"

    def loaded(tree: Path, name: str) -> str:
        return f"module use {tree}; module load {name}; {_repeated(samtools, times)}"

    return Row(
        title="Start of a tool by its wrapper",
        goal="10 ms more than the runtime alone, at most",
        commands=(
            Command(label="sifmod's wrapper", script=loaded(tools.ours, f"tool0/{VERSION}"), times=times),
            Command(label="SHPC's wrapper", script=loaded(tools.theirs, f"bench/tool0/{VERSION}"), times=times),
            Command(
                label="singularity exec", script=_repeated(f"singularity exec {image} {samtools}", times), times=times
            ),
        ),
    )


def inspect(data: Data) -> Row:
    image = data.big_image(IMAGE_MB)
    return Row(
        title=f"Packages of an image of {IMAGE_MB // 1024} GB",
        goal="faster",
        commands=(
            Command(label="sifmod inspect --packages", script=f"sifmod inspect {image} --packages"),
            Command(label="singularity exec pip list", script=f"singularity exec {image} pip list"),
            Command(label="sifmod inspect, summary", script=f"sifmod inspect {image}"),
        ),
        figures=("read",),
    )


def _install_growth(data: Data) -> Iterator[tuple[float, tuple[Command, ...]]]:
    for megabytes in (512, 2048, 8192):
        yield megabytes / 1024, _installs(data, megabytes)[:3]


def _pack_growth(data: Data) -> Iterator[tuple[float, tuple[Command, ...]]]:
    root = data.root
    for count in (1_000, 10_000, 100_000):
        data.clear()
        bash(f"EASYBUILD_PREFIX={data.prefix} eb Python-3.11-demo-singularity.eb --rebuild")
        write_sources(root / "user-software" / "many", count)
        yield float(count), _packings(data, root)
    data.clear()


def _addition_growth(data: Data) -> Iterator[tuple[float, tuple[Command, ...]]]:
    (name,) = write_wheels(data.scratch / "wheels", 1)
    wheel = data.scratch / "wheels" / f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
    for count in (1_000, 10_000, 100_000):
        data.empty()
        write_sources(data.root / "user-software" / "many", count)
        yield float(count), _additions(data, data.root, wheel)
    data.clear()


def _module_growth(data: Data) -> Iterator[tuple[float, tuple[Command, ...]]]:
    prefix, catalogue = data.scratch / "eb", data.scratch / "catalogue"
    easyconfig = data.easyconfig("tool0", "sources = ['samtools.sif']\ngpu = ''\nwrappers = ['samtools']\n")
    bash(f"export EASYBUILD_PREFIX={prefix} EASYBUILD_SOURCEPATH={data.images}; eb {easyconfig}")
    modules = f"export EASYBUILD_PREFIX={prefix} LMOD_IGNORE_CACHE=1 MODULEPATH={prefix}/modules/all"
    there = 1
    for count in (10, 100, 1_000):
        for number in range(there, count):
            copy_tool(prefix, "tool0", f"tool{number}x")
        there = count
        lines = {
            "sifmod list": f"sifmod list --prefix {prefix}",
            "sifmod verify --fast": f"sifmod verify --fast --quiet --prefix {prefix}",
            "sifmod catalogue": f"sifmod catalogue --quiet --output {catalogue} --prefix {prefix}",
            "sifmod doctor": f"{modules}; sifmod doctor --json",
            "module load": f"{modules}; module load tool0/1",
            "module avail": f"{modules}; module -t avail",
        }
        yield float(count), tuple(Command(label=label, script=line) for label, line in lines.items())


def _rank_growth(data: Data) -> Iterator[tuple[float, tuple[Command, ...]]]:
    _ = data.root
    for ranks in (1, 4, 16, 64):
        start = f"{data.load}; srun -N{min(ranks, 4)} -n{ranks} --overcommit singularity exec $SIF"
        yield (
            float(ranks),
            (
                Command(label="conda-python-distributed", script=f"{start} conda-python-distributed -c pass"),
                Command(label="python", script=f"{start} python -c pass"),
            ),
        )


ROWS: tuple[Callable[[Data], Row], ...] = (
    module,
    wrapper,
    long_arguments,
    distributed,
    share_1,
    share_4,
    share_16,
    share_64,
    avail,
    avail_many,
    shpc_one,
    shpc_few,
    shpc_many,
    shpc_avail,
    shpc_load,
    shpc_start,
    inspect,
    link,
    install,
    pack,
    compare,
    unpack,
    slow_pack,
    packages,
    imports,
    mounts,
    layer_imports,
    layer_starts,
    add_package,
    starts,
)
GROWTHS = (
    Growth(key="grow-image", title="Install, by the size of the image", unit="GB", rows=_install_growth),
    Growth(key="grow-files", title="Pack, by the number of files", unit="files", rows=_pack_growth),
    Growth(
        key="grow-added",
        title="Add a small package to packed user software, by the number of files in it",
        unit="files",
        rows=_addition_growth,
    ),
    Growth(
        key="grow-modules",
        title="By the number of installed modules (goal: linear or constant time, constant memory)",
        unit="modules",
        rows=_module_growth,
        figures=("processor time", "memory"),
    ),
    Growth(key="grow-ranks", title="Start, by the number of ranks on two cores", unit="ranks", rows=_rank_growth),
)
