import ast
import re
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sifmod.container.bind import Bind
from sifmod.container.parameters import PARAMETERS
from sifmod.errors import EasyconfigError
from sifmod.migrate.conversion import Converted, convert
from sifmod.site.settings import Site

from ..support import a_site

LUMI_STYLE = Path(__file__).parents[2] / "data" / "lumi-style.eb"
SIF = "lumi-pytorch-rocm-5.6.1-python-3.10-pytorch-v2.2.0-dockerhash-7392c9d4dcf7.sif"
LUMI = a_site(
    optional_binds=tuple(
        Bind.parse(path) for path in ("/var/spool/slurmd", "/opt/cray", "/usr/lib64/libcxi.so.1", "/pfs")
    ),
    container_env={"NCCL_SOCKET_IFNAME": "hsn0,hsn1,hsn2,hsn3", "NCCL_NET_GDR_LEVEL": "3"},
    gpu="amd",
)


def evaluated(text: str) -> dict[str, Any]:
    """Evaluate an easyconfig as far as these need it: its own code, with EasyBuild's constant SYSTEM."""
    variables: dict[str, Any] = {"SYSTEM": {"name": "system", "version": "system"}}
    exec(compile(text, "easyconfig", "exec"), variables)  # noqa: S102 - our own fixture and output
    return {name: value for name, value in variables.items() if name not in ("SYSTEM", "__builtins__")}


def converted(site: Site = LUMI, **changes: object) -> Converted:
    variables = {**evaluated(LUMI_STYLE.read_text()), **changes}
    return convert(variables, site, origin="lumi-style.eb")


def values(result: Converted) -> dict[str, Any]:
    return evaluated(result.text)


def minimal(**changes: object) -> Converted:
    """Return the parameters of the smallest easyconfig of a container, after its conversion."""
    variables = {"easyblock": "MakeCp", "name": "X", "version": "1", "sources": ["x.sif"], **changes}
    return convert(variables, a_site(), origin="x.eb")


def test_everything_that_sifmod_has_a_parameter_for_is_carried_over() -> None:
    found = values(converted())
    assert found == {
        "easyblock": "ContainerImage",
        "name": "PyTorch",
        "version": "2.2.0",
        "versionsuffix": "-rocm-5.6.1-python-3.10-singularity-20240315",
        "homepage": "https://pytorch.org/",
        "description": 'PyTorch %(version)s on Python 3.10, with "quotes" and a \\ backslash.',
        "whatis": ["Description: PyTorch, a machine learning package", "Keywords: PyTorch, DeepSpeed"],
        "docurls": ["DeepSpeed web site: https://www.deepspeed.ai/"],
        "toolchain": {"name": "system", "version": "system"},
        "sources": [SIF],
        "gpu": "amd",
        "conda_env": "pytorch",
        "venv": "pytorch",
        "pip_requirements": ["torchmetrics", "pytorch-lightning >= 2.0"],
        "pack_user_software": True,
        "wrappers": ["python", "pip", "torchrun"],
        "binds": ["/opt/our-data:/data:ro"],
        "container_env": {"OMP_NUM_THREADS": "7", "NCCL_DEBUG": "WARN"},
        "sanity_check_commands": evaluated(LUMI_STYLE.read_text())["sanity_check_commands"][2:],
        "enhance_sanity_check": True,
        "modextravars": {"OUR_DATA": "/data"},
        "modluafooter": "conflict( 'singularity-AI-bindings' )",
        "moduleclass": "devel",
    }


def test_what_is_lost_is_named_in_the_text_and_apart() -> None:
    result = converted()
    for word in ("bin/report", "runscript own", "wget https://example.org", "'--pre'", "group = "):
        assert any(word in note for note in result.lost), word
        assert any(line.startswith("# - ") and word in line for line in result.text.splitlines())
    assert len(result.lost) == 5
    assert {re.split("[: ]", note)[0] for note in result.look} == {
        "description",
        "binds",
        "sanity_check_commands",
        "modluafooter",
    }
    assert converted().file_name == "PyTorch-2.2.0-rocm-5.6.1-python-3.10-singularity-20240315.eb"
    assert converted().text.startswith("# Converted by sifmod ")
    written = re.findall(r"^(\w+) = ", converted(site=a_site()).text, re.MULTILINE)
    assert written == sorted(written, key=[*PARAMETERS].index)


def test_what_the_site_has_not_is_a_bind_and_a_variable_of_the_easyconfig() -> None:
    found = values(converted(site=a_site()))
    assert found["binds"] == [
        "/var/spool/slurmd",
        "/opt/cray",
        "/usr/lib64/libcxi.so.1",
        "/pfs",
        "/opt/our-data:/data:ro",
    ]
    assert found["container_env"]["NCCL_SOCKET_IFNAME"] == "hsn0,hsn1,hsn2,hsn3"


def test_the_python_is_that_of_the_commands() -> None:
    found = values(
        minimal(
            postinstallcmds=["singularity exec x.sif bash -c 'source /opt/conda/bin/activate tf; python -m venv v'"]
        )
    )
    assert (found["conda_root"], found["conda_env"], found["venv"]) == ("/opt/conda", "tf", "v")
    result = minimal(
        postinstallcmds=["singularity exec x.sif bash -c '$WITH_CONDA ; python -m venv /user-software/venv/v'"]
    )
    assert "venv" not in values(result)
    assert any("WITH_CONDA in the image, which was not found" in note for note in result.lost)
    assert any(note.startswith("venv: it needs conda_env") for note in result.lost)
    found = values(
        minimal(local_conda_env="e", postinstallcmds=["x -m venv --clear e", "pip3 install --no-cache 'a>=1' b"])
    )
    assert found["pip_requirements"] == ["a>=1", "b"]


@pytest.mark.parametrize(
    ("changes", "gpu"),
    [({"versionsuffix": "-cuda-12"}, "nvidia"), ({"sources": ["x-rocm-6.sif"]}, "amd"), ({}, None)],
)
def test_the_gpu_s_vendor_is_read_off_the_names(changes: dict[str, object], gpu: Optional[str]) -> None:
    result = minimal(**changes)
    assert values(result).get("gpu") == gpu
    assert any("Add gpu" in note for note in result.lost) == (gpu is None)


def test_sources_or_values_that_an_install_would_refuse_are_named_and_left_out() -> None:
    result = minimal(modextravars={"SINGULARITYENV_A": "two\nlines", "SINGULARITY_BIND": "relative,/fine"})
    found = values(result)
    assert found["binds"] == ["/fine"]
    assert "container_env" not in found
    assert any(note.startswith("container_env = ") for note in result.lost)
    assert any("'relative'" in note for note in result.lost)
    result = minimal(sources=["x.sif", {"filename": "x.docker"}, "y.sif"], checksums=["a" * 64, "b" * 64])
    assert values(result)["sources"] == ["x.sif"]
    assert values(result)["checksums"] == ["a" * 64]
    assert sum("x.docker" in note or "y.sif" in note for note in result.lost) == 2
    result = minimal(modaliases={"m": {1, 2}}, dependencies=[("zlib", "1.3")], modextravars={"A": object()})
    found = values(result)
    assert found["dependencies"] == [("zlib", "1.3")]
    assert not {"modaliases", "modextravars"} & set(found)
    assert sum("can't be written as Python" in note for note in result.lost) == 2


@pytest.mark.parametrize("command", ["mkdir -p x && wget y", "chmod a+x z; ./z", "rm -r user-software | tee log"])
def test_a_command_behind_a_harmless_one_is_named(command: str) -> None:
    assert any(command in note for note in minimal(postinstallcmds=[command]).lost)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"easyblock": "ContainerImage"}, "already"),
        ({"sources": ["x.tar.gz"]}, "no SIF among its sources"),
        ({"sources": None}, "no SIF among its sources"),
        ({"sources": [3, None, {}]}, "no SIF among its sources"),
        ({"name": None}, "has no name"),
        ({"name": "../../x"}, "'name' = '../../x'"),
        ({"name": "-x"}, "'name' = '-x'"),
        ({"version": "../../../x"}, "'version' = '../../../x"),
        ({"versionsuffix": "\n1"}, "'version' = "),
        ({"version": 3}, "has no version"),
        ({"sources": ["../x.sif"]}, "the image can't be used"),
    ],
)
def test_what_is_no_easyconfig_of_a_container_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(EasyconfigError) as caught:
        minimal(**changes)
    assert says in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"postinstallcmds": "a string"},
        {"postinstallcmds": [None, 3, ["x"]]},
        {"postinstallcmds": ["cat >x <<EOF", "ln -s", "echo 'unbalanced"]},
        {"modextravars": ["x"]},
        {"modextravars": {3: 4}},
        {"modluafooter": 3},
        {"sanity_check_commands": {"a": 1}},
        {"description": 3},
        {"whatis": "text"},
        {"local_conda_env": 3},
    ],
)
def test_odd_values_do_not_end_in_a_traceback(changes: dict[str, object]) -> None:
    ast.parse(minimal(**changes).text)


@given(st.text(), st.lists(st.text()), st.dictionaries(st.text(), st.text()))
def test_any_texts_end_in_an_easyconfig(text: str, texts: list[str], variables: dict[str, str]) -> None:
    result = minimal(description=text, homepage=text, postinstallcmds=texts, modextravars=variables, modluafooter=text)
    found = values(result)
    assert found["name"] == "X"
    assert found.get("homepage", "") == text


@pytest.mark.parametrize(
    "command",
    [
        """singularity exec $SIFX python -c "import jax ; print( f'JAX {jax.__version__} ; ok' )\"""",
        """start-shell -c '/runscripts/conda-python-simple -c "import a ; print(a)"' """,
        "echo 'pip and numpy' ; pip freeze | grep numpy | sed -e 's|.*=\\(.*\\)|\\1|' | grep -q 2.2.4",
        "pip list | egrep '^torch ' | awk '{ print $2}' | sed -e 's|\\+ro.*||' | grep -q 2.7.1",
        "python3 --version | sed -e 's|.* \\([[:digit:]]\\.[[:digit:]]\\+\\).*|\\1|' | grep -q 3.12",
        ("pip", "-h"),
        True,
    ],
)
def test_a_sanity_check_keeps_its_meaning_to_the_letter(command: object) -> None:
    found = values(minimal(local_conda_env="e", sanity_check_commands=["bash -n start-shell", command]))
    assert found["sanity_check_commands"] == [command]
    assert found["enhance_sanity_check"] is True
    assert "expected_packages" not in found


@pytest.mark.parametrize(
    "command",
    [
        "list-packages",
        "singularity exec $SIFX list-packages",
        'echo "Syntax check"   ; bash -n %(installdir)s/runscripts/get-master',
    ],
)
def test_a_check_of_a_script_that_sifmod_tests_itself_is_left_out(command: str) -> None:
    result = minimal(sanity_check_commands=[command])
    assert "sanity_check_commands" not in values(result)
    assert not any("sanity" in note for note in result.lost)


def test_wrappers_and_checks_of_scripts_that_are_not_carried_over_are_named() -> None:
    result = minimal(
        postinstallcmds=[script("bin/report", "uptime"), script("bin/start-shell", "")],
        sanity_check_commands=["report -h"],
    )
    assert "sanity_check_commands" not in values(result)
    assert any("report -h" in note for note in result.lost)
    result = with_script('export A=1\nmodule load x\nsingularity exec --nv -B /x:/y $SIF gmx "$@"')
    assert values(result)["wrappers"] == ["gmx"]
    for word in ("'export A=1'", "'module load x'", "'--nv -B /x:/y'"):
        assert any(word in note for note in result.lost), word


def script(path: str, text: str) -> str:
    """Return a command of postinstallcmds that writes a script, as EasyBuild gets it."""
    return f"cat >%(installdir)s/{path} <<EOF \n#!/bin/bash\n{text}\nEOF".replace("$", "\\$")


def with_script(text: str, *more: str, name: str = "gmx") -> Converted:
    return minimal(postinstallcmds=[script(f"bin/{name}", text), script("bin/start-shell", "bash"), *more])


@pytest.mark.parametrize(
    "text",
    [
        'singularity exec $SIFX gmx "$@"',
        'exec apptainer exec "$SIF" gmx "$@"',
        "  singularity exec /apps/x.sif gmx $@",
        '# singularity exec $SIF other "$@"\nsingularity exec "${SIFX}" $(basename "$0") "$@"',
        'NAME="$(basename $0)"  # the name\nif true; then\n    singularity exec $SIF "$NAME" "$@"\nfi',
        'NAME=${0##*/}\nsingularity exec $SIF ${NAME} "$@"',
    ],
)
def test_a_script_that_runs_its_own_name_is_a_wrapper(text: str) -> None:
    result = with_script(text)
    assert values(result)["wrappers"] == ["gmx"]
    assert not any("gmx" in note for note in result.lost)


@pytest.mark.parametrize(
    "text",
    [
        'singularity exec $SIF "$@"',
        'singularity run $SIF "$@"',
        'singularity shell $SIF "$@"',
        'singularity exec $SIF other "$@"',
        'singularity exec $SIF gmx mdrun "$@"',
        "singularity exec $SIF gmx",
        'NAME=other\nsingularity exec $SIF $NAME "$@"',
        'singularity exec $SIF gmx "$@"\nsingularity exec $SIF rm -rf x',
        "uptime",
    ],
)
def test_a_script_that_does_something_else_is_named_and_no_wrapper(text: str) -> None:
    result = with_script(text)
    assert "wrappers" not in values(result)
    assert [note for note in result.lost if "bin/gmx" in note] == [
        "the script bin/gmx: it does something other than run gmx in the container"
    ]


@pytest.mark.parametrize(
    ("text", "wrappers"),
    [
        ('singularity exec $SIF $(basename $0) "$@"', ["python", "torchrun"]),
        ('singularity exec $SIF python "$@"', ["python"]),
    ],
)
def test_a_link_to_a_wrapper_counts_if_the_script_runs_the_name_of_the_link(text: str, wrappers: list[str]) -> None:
    links = [f"ln -s ./python %(installdir)s/bin/{name}" for name in ("python3", "torchrun")]
    result = with_script(text, *links, name="python")
    assert values(result)["wrappers"] == wrappers
    assert any("bin/torchrun: it runs python" in note for note in result.lost) == (wrappers == ["python"])


@pytest.mark.parametrize(
    ("commands", "says"),
    [
        (["cd %(installdir)s && singularity build --force x.sif x.def"], "builds another image"),
        ([script("bin/x-shell", 'singularity shell $SIF "$@"')], "its commands (x-shell) do not run"),
    ],
)
def test_a_container_that_is_used_in_another_way_is_refused_with_the_reason(commands: list[str], says: str) -> None:
    with pytest.raises(EasyconfigError, match="not a container in LUMI's way") as caught:
        minimal(postinstallcmds=commands)
    assert says in str(caught.value)
    assert "sifmod new" in str(caught.value)


@pytest.mark.parametrize("suffix", ["-noRocm-6.4-SP6", "-no-rocm", "-no_ROCm"])
@pytest.mark.parametrize("site", [a_site(), LUMI], ids=["no vendor", "amd"])
def test_an_image_without_rocm_is_not_for_amd(suffix: str, site: Site) -> None:
    commands = [script("runscripts/get-master", "# rsync is needed for ROCm")]
    variables = {"name": "X", "version": "1", "sources": ["x.sif"], "versionsuffix": suffix}
    result = convert({**variables, "postinstallcmds": commands}, site, origin="x.eb")
    assert values(result)["gpu"] == ""
    assert not any(note.startswith("gpu") for note in result.lost)


def test_another_vendor_than_the_denied_one_counts() -> None:
    assert values(minimal(versionsuffix="-cuda-12-norocm"))["gpu"] == "nvidia"
    assert values(minimal(versionsuffix="-nano-rocm"))["gpu"] == "amd"


@pytest.mark.parametrize(
    "function", ["prepend_path( 'SINGULARITY_BIND', '{}', ',' )", 'setenv("APPTAINER_BINDPATH", "{}")']
)
def test_bind_paths_of_the_footer_stand_once(function: str) -> None:
    footer = "-- binds\n" + function.format("/one,/two:/2:ro") + "\nconflict('other')\n"
    found = values(minimal(modluafooter=footer, local_singularity_bind="/one"))
    assert found["binds"] == ["/one", "/two:/2:ro"]
    assert found["modluafooter"] == "conflict('other')"
    assert "modluafooter" not in values(minimal(modluafooter=function.format("/one")))


def test_bind_paths_of_one_installation_and_dropped_paragraphs_are_said() -> None:
    own = "%(installdir)s/runscripts:/runscripts,%(installdir)s/user-software:/user-software"
    result = minimal(modextravars={"SINGULARITY_BIND": f"{own},%(installdir)s/etc:/etc/x,$HOME/data"})
    assert "binds" not in values(result)
    assert [note.partition("'")[2].partition("'")[0] for note in result.lost if "bind path" in note] == [
        "%(installdir)s/etc:/etc/x",
        "$HOME/data",
    ]
    result = minimal(description="Kept.\n\nThis container has a fix for X.\n\nNote\nthat it is old.")
    assert values(result)["description"] == "Kept."
    (note,) = (note for note in result.look if note.startswith("description"))
    assert "'This container has a fix', 'Note that it is old.'" in note


def test_runscripts_that_need_the_unknown_python_are_named_and_wrappers_without_one_stay() -> None:
    found = values(with_script('singularity exec $SIF $(basename $0) "$@"', name="python"))
    assert found["wrappers"] == ["python"]
    links = ["ln -s ./python %(installdir)s/bin/pip"]
    found = values(with_script('singularity exec $SIF $(basename $0) "$@"', *links, name="python"))
    assert found["wrappers"] == ["python", "pip"]
    (note,) = (note for note in older("").lost if "choice of Python" in note)
    assert "(conda-python-simple, conda-python-distributed)" in note
    (note,) = (note for note in older("true").lost if "choice of Python" in note)
    assert "which is 'true'" in note


OLDER = [
    script("runscripts/conda-python-simple", '$WITH_CONDA\npython "$@"'),
    script("runscripts/conda-python-distributed", '$WITH_CONDA\npython "$@"'),
    script("runscripts/get-master", ""),
]


def older(with_conda: str, **changes: object) -> Converted:
    variables = {"name": "X", "version": "1", "sources": ["x.sif"], "postinstallcmds": OLDER, **changes}
    return convert(variables, a_site(), origin="x.eb", with_conda=with_conda)


@pytest.mark.parametrize(
    ("root", "given"), [("/opt/miniconda3", {}), ("/opt/conda", {"conda_root": "/opt/conda"})], ids=["usual", "other"]
)
def test_the_conda_environment_of_the_image_is_the_last_resort(root: str, given: dict[str, str]) -> None:
    result = older(f"source {root}/bin/activate pytorch")
    found = values(result)
    assert {key: found[key] for key in found if key.startswith("conda_")} == {"conda_env": "pytorch", **given}
    assert not any("Python" in note for note in result.lost)
    assert "conda_env = 'pytorch' is read from WITH_CONDA in the image" in result.look
    assert values(older(f"source {root}/bin/activate pytorch", local_conda_env="own"))["conda_env"] == "own"
