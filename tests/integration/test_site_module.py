"""`sifmod site module`: any image gets what a container's module gives, in both languages and both modules tools."""

from dataclasses import dataclass

import pytest
from test_module_tcl import INIT, KEPT, OWN

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, IMAGES, LMODS, User, with_lmod

SITE = """
binds = ["/srv"]
optional_binds = ["/etc/hostname:/seen", "/no/such", "{folder}/dangling:/dangling", "/dev/null:/null"]
gpu = "nvidia"
default_features = ["host-mpi"]
[container_env]
NCCL_SOCKET_IFNAME = "hsn0 $USER"
PIP_INDEX_URL = "https://example.org/a'b"
[cache]
root = "/tmp/${CACHES}"
HF_HOME = "hf"
[feature.host-mpi]
help = "MPI of the host"
binds = ["/etc/hostn*:/host/"]
library_path = ["/host"]
env = { NCCL_SOCKET_IFNAME = "hsn1" }
container_env = { INNER = "1" }
[feature.elsewhere]
exists = "/no/such"
env = { ELSEWHERE = "1" }
[feature.quiet]
env = { QUIET = "1" }
"""
SEEN = """ls -d /host/hostname /null /srv /seen
echo $NCCL_SOCKET_IFNAME $PIP_INDEX_URL $HF_HOME ${LD_LIBRARY_PATH%%:*} $INNER $QUIET $ELSEWHERE"""
DEMO = IMAGES / "demo.sif"


@dataclass(frozen=True)
class Cluster:
    """A user of a cluster whose site has a module, beside the module of a container."""

    user: User
    tool: str

    def _typed(self, script: str) -> str:
        init = "" if self.tool in LMODS else f"{INIT}\nmodule list &>/dev/null"
        return f"{init}\nexport USER=me CACHES=own-caches; mkdir -p -m 700 /tmp/$CACHES/hf\n{OWN}\n{script}"

    def out(self, script: str) -> str:
        return self.user.out(self._typed(script))

    def environment(self, script: str) -> dict[str, str]:
        found = self.user.environment(self._typed(f"{{ {script}\n}} &>/dev/null"))
        return {name: value for name, value in found.items() if not name.startswith(KEPT)}

    def replacing(self, one: str, other: str) -> str:
        """Return the command that replaces the module of one container, which is loaded, by another."""
        return f"module load {other}" if self.tool in LMODS else f"module switch {one} {other}"


@pytest.fixture(
    scope="module",
    params=[("8.6", "Lua"), ("8.7", "Lua"), ("8.6", "Tcl"), ("8.7", "Tcl"), ("environment-modules", "Tcl")],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Both modules, the container's as `sifmod render` writes it: an install takes longer."""
    tool, syntax = request.param
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "our.toml").write_text(SITE.replace("{folder}", str(folder)))
    (folder / "dangling").symlink_to("nowhere")
    prefix = folder / "eb"
    user = User(prefix, {"SIFMOD_SITE": str(folder / "our.toml"), "EASYBUILD_MODULE_SYNTAX": syntax})
    user.run(f"sifmod render {DEMO_EASYCONFIG} --output rendered; cp -r rendered/* {prefix}", cwd=folder)
    user.run(f"sifmod site module --output {prefix}/modules/all")
    if syntax == "Tcl":
        (prefix / "modules/all/our-container.lua").unlink()
    (user.installdir(DEMO_MODULE) / "user-software").mkdir()
    (user.installdir(DEMO_MODULE) / DEMO.name).symlink_to(DEMO)
    return Cluster(with_lmod(user, tool) if tool in LMODS else user, tool)


def test_any_image_gets_what_the_module_of_a_container_gives(cluster: Cluster) -> None:
    def seen(module: str, image: str, choice: str = "") -> list[str]:
        script = f"{choice} module load {module}; singularity exec {image} sh -c '{SEEN}'"
        return cluster.out(script).splitlines()

    binds = ["/host/hostname", "/null", "/seen", "/srv"]
    words = "hsn1 https://example.org/a'b /tmp/own-caches/hf /host 1"
    assert seen(DEMO_MODULE, "$SIF") == seen("our-container", str(DEMO)) == [*binds, words]
    choice = "export SIFMOD_FEATURES=-host-mpi,quiet,elsewhere;"
    words = "hsn0 me https://example.org/a'b /tmp/own-caches/hf /.singularity.d/libs 1"
    assert seen(DEMO_MODULE, "$SIF", choice) == seen("our-container", str(DEMO), choice) == [*binds[1:], words]


def test_a_container_replaces_it_without_doubled_binds_and_unloading_restores(cluster: Cluster) -> None:
    before = cluster.environment("true")
    alone = cluster.environment(f"module load {DEMO_MODULE}")
    both = f"module load our-container; {cluster.replacing('our-container', DEMO_MODULE)}"
    assert cluster.environment(both) == alone
    assert alone["SINGULARITY_BINDPATH"].count("/srv") == 1
    assert alone["SINGULARITY_BINDPATH"].endswith(",/opt")
    assert cluster.environment(f"{both}; module unload {DEMO_MODULE}") == before
    assert cluster.environment("module load our-container; module unload our-container") == before
    assert cluster.environment("module load our-container; module load our-container; module purge") == before


def test_it_replaces_a_container(cluster: Cluster) -> None:
    back = f"module load {DEMO_MODULE}; {cluster.replacing(DEMO_MODULE, 'our-container')}"
    assert cluster.environment(back) == cluster.environment("module load our-container")


def test_environment_modules_refuses_a_second_one(cluster: Cluster) -> None:
    if cluster.tool in LMODS:
        pytest.skip("Lmod replaces it")
    said = cluster.out(f"module load our-container; module load {DEMO_MODULE} 2>&1; echo $SINGULARITY_BINDPATH")
    assert "conflict" in said
    assert said.endswith("/srv,/etc/hostname:/seen,/dev/null:/null,/etc/hostname:/host/hostname,/opt")


def test_commands_of_a_container_keep_what_the_user_appends_to_it(cluster: Cluster) -> None:
    start = f"{cluster.user.installdir(DEMO_MODULE)}/bin/start-shell -c 'ls -d /media /opt /srv'"
    append = "export SINGULARITY_BINDPATH=$SINGULARITY_BINDPATH,/media APPTAINER_BINDPATH=$APPTAINER_BINDPATH,/media"
    assert cluster.out(f"module load our-container; {append}; {start}").split() == ["/media", "/opt", "/srv"]


def test_help_and_whatis_say_what_it_sets(cluster: Cluster) -> None:
    said = cluster.out("module help our-container 2>&1; module whatis our-container 2>&1")
    for word in ("singularity run IMAGE.sif", "/srv", "/no/such", "--nv", "NCCL_SOCKET_IFNAME=hsn0 $USER", "HF_HOME"):
        assert word in said
    assert "* host-mpi  MPI of the host" in said
    assert "GPU support of our for containers of any image" in " ".join(said.split())
