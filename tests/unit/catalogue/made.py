"""Catalogues for tests: a small one with foreign text, and a large one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sifmod.catalogue.model import INSTALLED, Catalogue, Entry, Fit, Image, KnownProblem, Package
from sifmod.finding import PROBLEM

HOSTILE = "<script>document.title = 'run'</script><img src=x onerror=\"document.title='run'\">"
GUIDE = f"""# Before you start

Ask for `--gpus-per-node`. See [our pages](https://example.org/docs), not [these](javascript:alert(1)).

![a <picture>](https://example.org/x.png)

| queue | hours |
|---|---|
| small | 24 |

{HOSTILE}
"""


def an_entry(module: str = "Demo/1.0", **changes: Any) -> Entry:
    """Return an installed module; `changes` replace fields, and `packages` is a mapping."""
    name, _, version = module.partition("/")
    packages = changes.pop("packages", {})
    fields: dict[str, Any] = {
        "module": module,
        "name": name,
        "version": version,
        "state": INSTALLED,
        "image": Image(f"{name}.sif", size=53_600_000, sha256="ab" * 32),
        "load": f"module load {module}",
        "run": "srun -n1 python --version",
        "job": "#!/bin/bash\nsrun python train.py\n",
        "page": f"modules/{module.replace('/', '-')}.html",
        "packages": tuple(Package(*pair) for pair in packages.items()),
    }
    return Entry(**{**fields, **changes})


def a_catalogue() -> Catalogue:
    """Return modules with and without Python and GPUs, two versions of one, and text that would do harm as HTML."""
    torch = an_entry(
        "PyTorch/2.7.1",
        description="Machine learning with AMD GPUs.",
        homepage="https://pytorch.org/",
        module_class="ai",
        gpu="amd",
        partitions=(Fit("gpu-a", "yes"), Fit("gpu-b", "no", "driver 5.18.13 is of ROCm 5.4: it may be slow")),
        mpi="host",
        python_version="3.12",
        has_python=True,
        commands=("pip", "python", "torchrun"),
        packages={"numpy": "2.1.0", "torch": "2.7.1", "torchmetrics": "1.7.0"},
        advisories=(KnownProblem(PROBLEM, "advisory x", "It is slow.", "see https://example.org/1", "Set X=1."),),
        guide=GUIDE,
    )
    older: dict[str, Any] = {"easyconfig": "", "python_version": "3.10", "advisories": (), "guide": ""}
    before = replace(
        torch,
        **older,
        module="PyTorch/2.2.0",
        version="2.2.0",
        load="module load PyTorch/2.2.0",
        packages=(Package("apex", "0.1"), Package("numpy", "1.26.4"), Package("torch", "2.2.0")),
        page="modules/PyTorch-2.2.0.html",
    )
    samtools = an_entry(
        "samtools/1.22",
        description="Sorts and indexes aligned sequences.",
        module_class="bio",
        commands=("samtools",),
        run="srun -n1 samtools",
        state="offered",
        easyconfig="samtools-1.22.eb",
    )
    hostile = an_entry("hostile/1", description=HOSTILE, module_class=HOSTILE, commands=(HOSTILE,), job=HOSTILE)
    hostile = replace(hostile, packages=(Package(HOSTILE, HOSTILE),), load=HOSTILE, homepage="")
    hostile = replace(hostile, partitions=(Fit(HOSTILE, "no", HOSTILE),))
    return Catalogue(
        time="2026-01-31T08:00:00Z",
        site="test",
        modules=(hostile, torch, before, samtools),
        archived={"PyTorch": ("1.13.0",)},
    )


def a_large_catalogue(modules: int = 2000, packages: int = 300) -> Catalogue:
    """Return a catalogue as large as the largest that the search must be quick with."""
    return Catalogue("2026-01-31T08:00:00Z", "test", tuple(_many(modules, packages)))


def _many(modules: int, packages: int) -> Iterator[Entry]:
    for number in range(modules):
        # a third of the packages is in all of them, as in images of one kind; the others vary
        chosen = {f"common-{one}": f"1.{number % 7}" for one in range(packages // 3)}
        chosen.update({f"library-{(number * 37 + one * 11) % 5000}": f"{one % 9}.0" for one in range(packages * 2)})
        chosen = dict(sorted(list(chosen.items())[:packages]))
        yield an_entry(
            f"Software{number // 8:03}/{number % 8}.0",
            description=f"Software {number} for a test of the search.",
            module_class=("ai", "bio", "chem")[number % 3],
            gpu=("amd", "nvidia", "")[number % 3],
            has_python=True,
            python_version="3.11",
            commands=("python", "pip", f"tool{number % 100}"),
            packages=chosen,
        )
