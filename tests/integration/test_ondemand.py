"""The apps of Open OnDemand: real Ruby fills them in, and a job starts a real Jupyter, or a stand-in for a server."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from test_serve import ask
from tests.lacking import lacking
from tests.programs import ran
from tests.waiting import until

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, ROOT, User, make_user

# What Open OnDemand does with a file of the app: eRuby with this trim mode. What the user chose is `context` in
# template/, and names of their own in submit.yml.erb; the view knows the connection.
FILL_IN = """
require "erb"
require "json"
require "ostruct"
names = JSON.parse(ARGV[1], object_class: OpenStruct)
print ERB.new(File.read(ARGV[0]), trim_mode: "-").result(names.instance_eval { binding })
"""
# What its job defines before it sources before.sh, and after that runs script.sh and sources after.sh.
JOB = """
cd {folder}/template
host=$(hostname)
find_port() {{ python3 {folder}/find_port.py; }}
create_passwd() {{ head -c 256 /dev/urandom | tr -dc A-Za-z0-9 | head -c "$1"; }}
clean_up() {{ exit "${{1:-0}}"; }}
source before.sh
# a folder of sessions that the container lacks
export APPTAINER_NO_MOUNT=tmp SINGULARITY_NO_MOUNT=tmp
./script.sh >{folder}/output 2>&1 & SCRIPT_PID=$!
source after.sh
url=http://127.0.0.1:$port/node/$host/$port
curl --silent --output /dev/null --write-out '%{{http_code}}\n' "$url/api/status"
curl --silent --output /dev/null --cookie-jar {folder}/cookies --data-urlencode "password=$password" "$url/login"
curl --silent --cookie {folder}/cookies "$url/api/kernelspecs" | tr -d '\\n'
echo
stat -c %a jupyter_config.py
kill $SCRIPT_PID
wait $SCRIPT_PID
"""
# The same, of an app that has no before.sh, and whose after.sh finds out where it is.
SERVING_JOB = """#!/bin/bash
cd {folder}/template
clean_up() {{ exit "${{1:-0}}"; }}
./script.sh >{folder}/output 2>&1 &
SCRIPT_PID=$!
source after.sh
printf '%s\\n' "$host" "$port" "$password" >{folder}/connection.new
mv {folder}/connection.new {folder}/connection
wait $SCRIPT_PID || clean_up 1
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
    user.pip_install(DEMO_MODULE, "--no-compile", "jupyter-server", "ipykernel")
    return user


def filled_in(path: Path, **chosen: object) -> str:
    ruby = shutil.which("ruby")
    if not ruby:
        lacking("ruby is not installed: testbed/setup --all")
    done = ran([ruby, "-e", FILL_IN, str(path), json.dumps(chosen)])
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_module_that_the_app_does_not_know_is_refused(with_jupyter: User, tmp_path: Path) -> None:
    app = tmp_path / "app"
    with_jupyter.run(f"sifmod catalogue --ood {app} --ood-cluster main")
    script = tmp_path / "script.sh"
    script.write_text(
        filled_in(app / "template" / "script.sh.erb", context={"container": f"{DEMO_MODULE}; touch {tmp_path}/evil"})
    )
    after = app / "template" / "after.sh"
    job = f"clean_up() {{ exit $1; }}; port=1; bash {script} & SCRIPT_PID=$!; source {after}"
    done = with_jupyter.run(job, check=False)
    assert (done.returncode, "this module has no Jupyter" in done.stderr) == (1, True)
    assert not (tmp_path / "evil").exists()


@pytest.fixture
def models_app(demo: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The app for servers, at a site with one that the demo image has."""
    rows = tmp_path / "servers.toml"
    command = f"python {tmp_path}/standin_server.py {{host}} {{port}} {{model}}"
    rows.write_text(f"[demo-vendor]\nkey_variable = 'API_KEY'\nform = {json.dumps(command)}\n")
    shutil.copy(ROOT / "tests" / "standin_server.py", tmp_path)
    monkeypatch.setenv("SIFMOD_SERVERS", str(rows))
    demo.run(f"sifmod catalogue --ood-serve {tmp_path}/app --ood-cluster main")
    return tmp_path / "app"


def session_of(app: Path, **chosen: str) -> Path:
    script = app / "template" / "script.sh.erb"
    script.write_text(filled_in(script, context=chosen))
    script.rename(script.with_suffix(""))
    job = app / "job.sh"
    job.write_text(SERVING_JOB.format(folder=app))
    return job


def test_the_page_has_address_and_key_of_a_model_whatever_its_name_holds(demo: User, models_app: Path) -> None:
    form = yaml.safe_load((models_app / "form.yml").read_text())
    ((_, server),) = form["attributes"]["server"]["options"]
    model = """it's "m" $(touch evil) `touch evil`; & \\\\ \n {host}x"""
    job = session_of(models_app, server=server, model=f" {model}\n")
    number = demo.run(f"sbatch --parsable -o {models_app}/log {job}").stdout.strip()
    try:
        connection = models_app / "connection"
        until(lambda: connection.exists() or not demo.has_job(number))
        output = (models_app / "output").read_text()
        assert connection.exists(), output
        host, port, key = connection.read_text().splitlines()
        found = json.loads((Path.home() / f".local/state/sifmod/serve/{number}.json").read_text())
        assert found["model"] == model
        assert key not in output
        pid = demo.out(f"pgrep -f 'standin_server.py .* {port} '").split()[-1]
        settings = dict(
            one.split("=", 1) for one in Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0") if one
        )
        assert settings["HF_HOME"] == str(Path.home() / ".cache/huggingface")
        cache = Path(settings["TRITON_CACHE_DIR"])
        assert cache.is_dir()
        assert [ask(f"http://{host}:{port}/v1/models", given)[0] for given in ("", key)] == [401, 200]
        view = filled_in(models_app / "view.html.erb", host=host, port=int(port), password=key)
        assert f"<code>http://{host}:{port}/v1</code>" in view
        assert f"<code>{key}</code>" in view
        assert "&lt;b&gt;" in filled_in(models_app / "view.html.erb", **{"host": "<b>", "port": 1, "password": "x"})
    finally:
        demo.run(f"scancel {number}")
    until(lambda: not demo.has_job(number))
    assert not list(models_app.rglob("evil"))
    assert not list((Path.home() / ".local/state/sifmod/serve").glob(f"{number}.*"))
    assert not cache.exists()


@pytest.mark.parametrize(
    ("server", "model", "said"),
    [
        (f"{DEMO_MODULE} demo-vendor", "--trust-remote-code", "is not the name of a model"),
        (f"{DEMO_MODULE} demo-vendor", " ", "is not the name of a model"),
        (f"{DEMO_MODULE} demo-vendor; touch evil", "m", "there is no such server"),
    ],
)
def test_what_the_form_does_not_offer_ends_the_session(
    demo: User, models_app: Path, server: str, model: str, said: str
) -> None:
    job = session_of(models_app, server=server, model=model)
    done = demo.run(f"SLURM_JOB_ID=4000000001 bash {job}", check=False)
    assert (done.returncode, said in (models_app / "output").read_text()) == (1, True), done
    assert not list(models_app.rglob("evil"))
