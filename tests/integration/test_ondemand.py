"""The app of Open OnDemand: real Ruby fills it in, and its job starts a real Jupyter on a node."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.lacking import lacking

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, User, make_user

pytestmark = pytest.mark.slow

# What Open OnDemand does with a file of the app: eRuby with this trim mode. What the user chose is `context` in
# template/, and names of their own in submit.yml.erb; the view knows the connection.
FILL_IN = """
require "erb"
require "json"
require "ostruct"
names = JSON.parse(ARGV[1], object_class: OpenStruct)
print ERB.new(File.read(ARGV[0]), trim_mode: "-").result(names.instance_eval { binding })
"""
# What its job defines before it sources before.sh, and after that runs script.sh.
JOB = """
cd {folder}/template
host=$(hostname)
find_port() {{ python3 {folder}/find_port.py; }}
create_passwd() {{ head -c 256 /dev/urandom | tr -dc A-Za-z0-9 | head -c "$1"; }}
source before.sh
./script.sh >{folder}/output 2>&1 & jupyter=$!
url=http://127.0.0.1:$port/node/$host/$port
for try in {{1..300}}; do
    if curl --silent --fail "$url/api" >/dev/null; then break; fi
    sleep 0.3
done
curl --silent --output /dev/null --write-out '%{{http_code}}\n' "$url/api/status"
curl --silent --output /dev/null --cookie-jar {folder}/cookies --data-urlencode "password=$password" "$url/login"
curl --silent --cookie {folder}/cookies "$url/api/kernelspecs" | tr -d '\\n'
echo
stat -c %a jupyter_config.py
kill $jupyter
wait $jupyter
"""
# Keeps the port from others until the server listens there, which both sides allow.
FIND_PORT = """
import os, socket, time
port = socket.socket()
port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
port.bind(("", 0))
print(port.getsockname()[1], flush=True)
if os.fork() == 0:
    os.dup2(os.open("/dev/null", os.O_RDWR), 1)
    time.sleep(120)
"""


@pytest.fixture(scope="module")
def with_jupyter(tmp_path_factory: pytest.TempPathFactory) -> User:
    user = make_user(tmp_path_factory.mktemp("jupyter") / "eb")
    user.eb(DEMO_EASYCONFIG)
    user.pip_install(DEMO_MODULE, "jupyter-server", "ipykernel")
    return user


def filled_in(path: Path, **chosen: object) -> str:
    ruby = shutil.which("ruby")
    if not ruby:
        lacking("ruby is not installed: testbed/setup --all")
    done = subprocess.run(
        [ruby, "-e", FILL_IN, str(path), json.dumps(chosen)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_job_starts_a_jupyter_that_only_the_password_opens(with_jupyter: User, tmp_path: Path) -> None:
    app = tmp_path / "an app"
    with_jupyter.run(f"sifmod catalogue --ood {shlex.quote(str(app))} --ood-cluster main")
    chosen = {"container": DEMO_MODULE, "cores": "2", "gpus": "0"}
    submit = yaml.safe_load(filled_in(app / "submit.yml.erb", **chosen))
    assert submit["script"]["native"] == ["--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=2"]
    submit = yaml.safe_load(filled_in(app / "submit.yml.erb", **{**chosen, "gpus": "4", "cores": "x"}))
    assert submit["script"]["native"][2:] == ["--cpus-per-task=1", "--gpus-per-node=4"]
    view = filled_in(app / "view.html.erb", **{"host": "nid001", "port": 4242, "password": "secret"})
    assert '<form action="/node/nid001/4242/login"' in view
    assert '<input type="hidden" name="password" value="secret">' in view

    session = tmp_path / "session"
    shutil.copytree(app, session)
    script = session / "template" / "script.sh.erb"
    script.write_text(filled_in(script, context=chosen))
    script.rename(script.with_suffix(""))
    job = session / "job.sh"
    job.write_text(JOB.format(folder=session))
    (session / "find_port.py").write_text(FIND_PORT)
    done = with_jupyter.run(f"srun -n1 bash {job}; cat {session}/output >&2", check=False)
    assert len(done.stdout.splitlines()) == 3, done
    status, kernels, mode = done.stdout.splitlines()
    assert status == "403", done
    assert "python3" in json.loads(kernels)["kernelspecs"], done
    assert mode == "600"


def test_a_module_that_the_app_does_not_know_is_refused(with_jupyter: User, tmp_path: Path) -> None:
    app = tmp_path / "app"
    with_jupyter.run(f"sifmod catalogue --ood {app} --ood-cluster main")
    script = tmp_path / "script.sh"
    script.write_text(
        filled_in(app / "template" / "script.sh.erb", context={"container": f"{DEMO_MODULE}; touch {tmp_path}/evil"})
    )
    done = with_jupyter.run(f"bash {script}", check=False)
    assert (done.returncode, "this module has no Jupyter" in done.stderr) == (1, True)
    assert not (tmp_path / "evil").exists()
