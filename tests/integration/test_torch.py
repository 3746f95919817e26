"""The proof: PyTorch in packed user software, trained on several nodes of Slurm by every launcher and framework."""

import json
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from transcript import Step, console_blocks, same

from conftest import DEMO_MODULE, TESTBED, User, make_user

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

HERE = Path(__file__).parent
TUTORIAL = HERE.parents[1] / "docs/tutorial.md"
HOWTO = HERE.parents[1] / "docs/howto/distributed-training.md"

# The nodes of the testbed are one machine: a rank takes one core.
LOAD = f"module load {DEMO_MODULE}; export OMP_NUM_THREADS=1"
NODES = "--nodes=2 --nodelist=nid003,nid004"
# A thread of gloo may abort a rank while its Python ends, after all its work: such a run is repeated. In a job script
# srun ends the other ranks then, and reports that. See "A rank ends with" in docs/howto/distributed-training.md.
ABORTED = "terminate called without an active exception"
LAUNCHERS = ("conda-python-distributed", "torchrun-distributed")


def launch(launcher: str, processes: int) -> str:
    """The command that starts so many processes on each of two nodes."""
    if launcher == "torchrun-distributed":
        return f"srun {NODES} --ntasks-per-node=1 singularity exec $SIF {launcher} --nproc-per-node={processes}"
    return f"srun {NODES} --ntasks-per-node={processes} singularity exec $SIF {launcher} -u"


@dataclass(frozen=True)
class Tutorial:
    """What was printed when everything in the tutorial was typed by a user."""

    user: User
    steps: list[Step]
    printed: list[str]
    error: str


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Tutorial:
    user = make_user(tmp_path_factory.mktemp("torch") / "eb", SIFMOD_SITE=str(TESTBED / "site.toml"))
    steps = console_blocks(TUTORIAL)
    programs = re.findall(r"Save it as `(\w+\.py)`:\n\n```python\n(.*?)^```$", TUTORIAL.read_text(), re.M | re.S)
    assert [name for name, _ in programs] == ["line.py", "tiny.py"]
    for name, program in programs:
        (user.prefix / name).write_text(program)
    script = "set -o pipefail\n"
    for number, step in enumerate(steps):
        typed = f"printf '\\n@@@ %s\\n' {number}\n{step.command}\n"
        script += (
            f"{typed}status=$?\nif ((status == {128 + signal.SIGABRT} || status == {128 + signal.SIGTERM})); then\n"
            f"rm -f line-*.out\n{typed}status=$?\nfi\n"
        )
        script += "if ((status)); then exit $status; fi\n"
    done = user.run(script, check=False, timeout=1400)
    # what a step printed that was typed again counts alone
    printed = dict(re.findall(r"(?ms)^@@@ (\d+)\n(.*?)(?=^@@@ |\Z)", done.stdout))
    return Tutorial(user, steps, list(printed.values()), done.stderr if done.returncode else "")


def test_the_tutorial_does_what_it_says(tutorial: Tutorial) -> None:
    assert not tutorial.error, f"{tutorial.steps[len(tutorial.printed) - 1]}\n{tutorial.printed[-1]}\n{tutorial.error}"
    assert len(tutorial.printed) == len(tutorial.steps) > 15
    for step, output in zip(tutorial.steps, tutorial.printed):
        assert not step.output or same(step.output, output), f"$ {step.command}\n{output}"


@pytest.fixture(scope="module")
def trainer(tutorial: Tutorial) -> User:
    """The tutorial's PyTorch, a layer below transformers and two frameworks, which the user has packed too."""
    user = tutorial.user
    user.pip_install(DEMO_MODULE, "lightning==2.6.6", "accelerate==1.15.0")
    user.run(f"{LOAD}; make-squashfs --remove-directory", timeout=1400)
    assert not (user.installdir(DEMO_MODULE) / "user-software").exists()
    return user


def at_once(one: str, other: str) -> str:
    """The script that runs two commands at once and fails if either does, repeated if a rank was aborted at its end."""
    both = f"{{ {one} & first=$!; {other} && wait $first; }} 2> >(tee -a messages >&2)"
    return f"{both} || {{ wait; grep -q '{ABORTED}' messages && {both}; }}"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_trainings_at_once_on_the_same_nodes(trainer: User, tmp_path: Path, launcher: str) -> None:
    """Two jobs on two nodes with two processes each: all ranks of a job agree, and the jobs do not meet."""
    shutil.copy(HERE / "programs/ddp.py", tmp_path)
    run = f"{launch(launcher, 2)} ddp.py"
    trainer.run(
        f"{LOAD}; {at_once(f'{run} red blue >red.out', f'{run} blue red >blue.out')}", cwd=tmp_path, timeout=1400
    )
    found = {}
    for job in ("red", "blue"):
        ranks = [json.loads(line) for line in (tmp_path / f"{job}.out").read_text().splitlines()]
        ranks.sort(key=lambda line: int(line["rank"]))
        assert [line["rank"] for line in ranks] == [0, 1, 2, 3]
        assert [(line["node"], line["local_rank"]) for line in ranks] == [
            ("nid003", 0),
            ("nid003", 1),
            ("nid004", 0),
            ("nid004", 1),
        ]
        assert {line["world"] for line in ranks} == {4}
        assert all(line["jobs"] == [job] * 4 for line in ranks)
        assert len({(line["slurm_job"], line["parameters"], line["loss"]) for line in ranks}) == 1
        assert ranks[0]["error"] < 1e-5
        assert ranks[0]["loss"] < 1
        found[job] = ranks[0]
    assert found["red"]["slurm_job"] != found["blue"]["slurm_job"]
    assert found["red"]["parameters"] != found["blue"]["parameters"]


@pytest.mark.parametrize("framework", ["lightning", "accelerate"])
def test_examples_of_frameworks_train_with_both_launchers(trainer: User, tmp_path: Path, framework: str) -> None:
    """What docs/howto/distributed-training.md shows is what runs here."""
    (example,) = re.findall(rf"```python\n# {framework}_line.py\n.*?```", HOWTO.read_text(), re.DOTALL)
    (tmp_path / "line.py").write_text(example.removeprefix("```python").removesuffix("```"))
    runs = [f"{launch(launcher, 1)} line.py >{launcher}.out" for launcher in LAUNCHERS]
    trainer.run(f"{LOAD}; {at_once(*runs)}", cwd=tmp_path, timeout=1400)
    for launcher in LAUNCHERS:
        lines = re.findall(r"rank (\d) of (\d): slope (\S+)", (tmp_path / f"{launcher}.out").read_text())
        assert sorted(line[0] for line in lines) == ["0", "1"]
        assert {line[1] for line in lines} == {"2"}
        (slope,) = {float(line[2]) for line in lines}
        assert slope == pytest.approx(2, abs=0.1)
