"""The site's features on the real tools: what a module and the commands do with them, on one node and on another."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from test_module_tcl import INIT

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, TESTBED, User, make_user

LOAD = f"module load {DEMO_MODULE}"
SITE = """
image_repositories = ["{testbed}/images"]
default_features = ["libraries"]

[feature.libraries]
help = "libraries of the host"
binds = ["{top}/host/lib*.so:/host/lib/"]
optional_binds = ["{top}/gone*"]
library_path = ["/host/lib"]
env = {{ PLAIN = "feature" }}
container_env = {{ INNER = "only inside" }}
runtime_options = ["--no-mount=tmp"]

[feature.fabric]
hosts = ["nid002"]
env = {{ FABRIC = "here" }}
conflicts = ["other"]

[feature.other]

[feature.broken]
binds = ["{top}/gone"]
"""


@dataclass(frozen=True)
class Cluster:
    """A user of a site with features.

    Attributes:
        user: the user, who has installed the demo.
        init: shell code that makes the modules tool known.
    """

    user: User
    init: str

    def out(self, script: str) -> str:
        return self.user.out(f"{self.init}\n{script}")


@pytest.fixture(scope="module", params=["Lua", pytest.param("Tcl", marks=pytest.mark.slow)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    top = tmp_path_factory.mktemp("features")
    (top / "host").mkdir()
    for name in ("liba.so", "libb.so", "lib,c.so", "readme"):
        (top / "host" / name).write_text(name)
    (top / "site.toml").write_text(SITE.format(top=top, testbed=TESTBED))
    user = make_user(top / "eb", SIFMOD_SITE=str(top / "site.toml"))
    user.eb(DEMO_EASYCONFIG, f"--module-syntax={request.param}")
    return Cluster(user, INIT if request.param == "Tcl" else ":")


def test_a_container_gets_what_the_feature_has(cluster: Cluster) -> None:
    look = "sh -c 'echo $PLAIN, $INNER, $LD_LIBRARY_PATH; ls /host/lib; ls -d /tmp/x'"
    expected = "feature, only inside, /host/lib:/.singularity.d/libs:/.singularity.d/libs\nliba.so\nlibb.so"
    make = "mkdir -p /tmp/x"
    for command in (f"{LOAD}; singularity exec $SIF {look}", f"{LOAD}; start-shell -c {look[5:]}"):
        done = cluster.user.run(f"{cluster.init}\n{make}; {command}", check=False)
        assert done.stdout.strip() == expected
        assert "/tmp/x" in done.stderr


def test_unloading_restores_and_loading_twice_changes_nothing(cluster: Cluster) -> None:
    names = "PLAIN|FABRIC|LD_LIBRARY|INNER|NO_MOUNT|BINDPATH|SIFMOD_FEATURES"
    show = f"env | grep -E '^(__SIFMOD_|[A-Z])[A-Z_]*({names})|^({names})' | sort"
    own = "export PLAIN=mine SINGULARITYENV_LD_LIBRARY_PATH=/mine SIFMOD_FEATURES=fabric"
    found = cluster.out(
        f"{own}; {show}; echo %%; {LOAD}; {show}; echo %%; {LOAD}; {show}; echo %%; module unload {DEMO_MODULE}; {show}"
    )
    before, once, twice, after = (part.strip() for part in found.split("%%"))
    assert "PLAIN=feature" in once
    assert once == twice
    assert before == after
    # on unload the features are those of the load
    change, unload = "export SIFMOD_FEATURES=-libraries", f"module unload {DEMO_MODULE}; unset SIFMOD_FEATURES"
    found = cluster.out(f"{show}; echo %%; {LOAD}; {change}; {unload}; {show}")
    before, after = (part.strip() for part in found.split("%%"))
    assert before == after == ""


def test_commands_decide_on_the_node_where_they_run(cluster: Cluster) -> None:
    python = (
        'python -c \'import os; print(os.environ["SLURMD_NODENAME"], os.environ.get("FABRIC"), os.environ["PLAIN"])\''
    )
    found = cluster.out(
        f"export SIFMOD_FEATURES=fabric; {LOAD}; unset SIFMOD_FEATURES; srun -w nid001,nid002 -N2 {python}"
    )
    assert sorted(found.splitlines()) == ["nid001 None feature", "nid002 here feature"]


def test_what_a_user_asks_for(cluster: Cluster) -> None:
    done = cluster.user.run(f"{cluster.init}\nSIFMOD_FEATURES=-libraries,fabrik {LOAD}; echo $CONTAINERROOT,$PLAIN")
    said = " ".join(done.stderr.split())
    assert "SIFMOD_FEATURES: there is no feature 'fabrik': use libraries, fabric" in said
    assert done.stdout.strip().endswith(f"{DEMO_MODULE},")
    there = "SLURMD_NODENAME=nid002 SIFMOD_FEATURES=fabric,other"
    done = cluster.user.run(f"{cluster.init}\nexport {there}; {LOAD}; echo $SIF", check=False)
    assert "the features 'fabric' and 'other' conflict" in " ".join(done.stderr.split())
    assert done.stdout.strip() == ""
    done = cluster.user.run(f"{cluster.init}\nexport SIFMOD_FEATURES=broken; {LOAD}; python -c 1", check=False)
    assert " ".join(done.stderr.split()).count("the feature 'broken' needs") == 2
    assert done.returncode == 126


def test_they_are_shown(cluster: Cluster) -> None:
    features = [line for line in cluster.user.out(f"sifmod show {DEMO_MODULE}").splitlines() if "in use" in line]
    assert [line.split()[-2:] for line in features[:1]] == [["in", "use"]]
    assert any(
        "fabric: not in use (SIFMOD_FEATURES=fabric adds it); not on this node, because" in line for line in features
    )
    assert "* libraries" in cluster.user.run(f"{cluster.init}\nmodule help {DEMO_MODULE}").stderr


def test_an_easyconfig_with_an_unknown_feature_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    found = cluster.user.out(
        f"sifmod show {DEMO_MODULE} --json | python3 -c 'import json,sys; print(json.load(sys.stdin)[\"easyconfig\"])'"
    )
    path = tmp_path / Path(found).name
    path.write_text(Path(found).read_text() + "\nfeatures = ['fabrik']\n")
    done = cluster.user.run(f"eb --rebuild {path}", check=False)
    assert done.returncode != 0
    assert "has no feature 'fabrik' (perhaps you meant 'fabric'): use one of libraries" in done.stdout + done.stderr
