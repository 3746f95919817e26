"""The runscript `serve`, outside of a container and of Slurm, with a stand-in for the server."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Optional

import pytest
from tests.programs import ran, write_file
from tests.waiting import until

from sifmod.container.spec import PythonLayout
from sifmod.inside import batch
from sifmod.resources import program

from ..support import Stubs, a_site, a_spec, exchanging
from .cases import ROOT, outputs
from .running import put_runscript

STANDIN = ROOT / "tests" / "standin_server.py"
STEP = {
    "SLURM_PROCID": "0",
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURMD_NODENAME": "localhost",
    "SLURM_SUBMIT_HOST": "login1",
}
HERE = ("{host}", "{port}")
MEMBER = {
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "localhost,localhost",
    "SLURM_PROCID": "1",
    "SLURM_GTIDS": "1",
}


def free_job() -> str:
    """Return a job whose block of 64 ports is free: other runs of these tests, and jobs of Slurm, have some."""
    for job in range(4711 + os.getpid() % 187, 9999):
        with suppress(OSError), socket.create_server(("127.0.0.1", 20000 + job % 187 * 64)):
            return str(job)
    raise AssertionError("no port is free")


class Serve:
    """Starts the runscript with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "it & me"
        self.home.mkdir(mode=0o700)
        self.top = folder / "runscripts"
        self.top.mkdir()
        python = PythonLayout(str(folder))
        for name, text in outputs(a_spec(python=python, venv="", gpu=""), a_site()).items():
            if name.startswith("runscripts/") and "/" not in name[len("runscripts/") :]:
                put_runscript(self.top / name[len("runscripts/") :], text)
        (folder / "bin").mkdir()
        (folder / "bin" / "python3").symlink_to(sys.executable)
        self.running: list[subprocess.Popen[str]] = []
        self.said = b""
        self.job = free_job()

    @property
    def state(self) -> Path:
        return self.home / ".local/state/sifmod/serve"

    def start(
        self,
        *options: str,
        how: tuple[str, ...] = (),
        command: Optional[list[str]] = None,
        environ: Optional[dict[str, str]] = None,
    ) -> subprocess.Popen[str]:
        words = command or [sys.executable, str(STANDIN), *HERE, *how]
        process = subprocess.Popen(
            ["bash", self.top / "serve", "--limit=30", "--key-variable=API_KEY", *options, "--", *words],
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(self.home),
                "TMPDIR": str(self.home),
                **STEP,
                "SLURM_JOB_ID": self.job,
                **(environ or {}),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.home,
        )
        self.running.append(process)
        return process

    def ready(self, *options: str, **more: object) -> dict[str, str]:
        """Start a server, and wait for the last line that the runscript prints of it."""
        process = self.start(*options, **more)  # type: ignore[arg-type] # as start takes it
        assert process.stdout
        self.said = b""
        while b"\nfrom outside:" not in self.said and (more_said := os.read(process.stdout.fileno(), 65536)):
            self.said += more_said
        path = self.state / f"{self.job}.json"
        assert path.exists(), self.said.decode()
        found: dict[str, str] = json.loads(path.read_text())
        return found

    def output(self) -> str:
        """Return all that a server that was ready has printed, once it ends."""
        return self.said.decode() + self.running[0].communicate(timeout=240)[0]

    def fails(self, *options: str, **more: object) -> str:
        process = self.start(*options, **more)  # type: ignore[arg-type] # likewise
        output = process.communicate(timeout=240)[0]
        assert process.returncode not in (0, None), output
        assert not list(self.state.glob("*")) if self.state.is_dir() else True
        return output


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    found = Serve(tmp_path)
    yield found
    for process in found.running:
        process.terminate()
        process.wait()


def asked(url: str, key: str = "") -> int:
    """Return the status of an answer."""
    host, _, path = url.partition("://")[2].partition("/")
    connection = http.client.HTTPConnection(host, timeout=240)
    connection.request("GET", f"/{path}", headers={"Authorization": f"Bearer {key}"} if key else {})
    with closing(connection):
        return connection.getresponse().status


def processes_with(text: str) -> list[int]:
    """Return the processes with a text in their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if text in path.read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                found.append(int(path.parent.name))
    return found


def children_of(found: dict[str, str]) -> list[int]:
    """Return the processes that a server has started."""
    return processes_with(f"child of the server at {found['url'].rpartition(':')[2]}")


def test_what_is_ready_is_written_down_and_nothing_is_left_when_it_ends(serve: Serve) -> None:
    model = """it's "m" \\ $(touch x) `touch x`;\tü"""
    found = serve.ready(f"--model={model}", how=("child",))
    assert (found["model"], found["node"], found["health"]) == (model, "localhost", "/health")
    assert found["module"] == a_spec().module
    key_file = Path(found["key_file"])
    key = key_file.read_text().strip()
    assert re.fullmatch("[0-9a-f]{64}", key)
    assert {path.stat().st_mode & 0o777 for path in serve.state.iterdir()} == {0o600}
    assert serve.state.stat().st_mode & 0o777 == 0o700
    assert [asked(f"{found['url']}/v1/models", given) for given in ("", "x", key)] == [401, 401, 200]
    assert processes_with(key) == []
    assert len(children_of(found)) == 1
    process = serve.running[0]
    process.send_signal(signal.SIGTERM)
    output = serve.output()
    assert process.returncode == 143
    assert list(serve.state.iterdir()) == []
    assert list(serve.home.glob("sifmod-*")) == []
    assert children_of(found) == []
    assert key not in output
    assert "settings: {'api_key': '(key)'}" in output
    port = found["url"].rpartition(":")[2]
    assert f"ssh -N -L {port}:localhost:{port} login1" in output
    assert not (serve.home / "x").exists()


def test_the_line_for_curl_is_one_that_works(serve: Serve) -> None:
    found = serve.ready("--server=vllm", "--key-variable=VLLM_API_KEY")
    command = serve.said.decode().partition("on the cluster: ")[2].splitlines()[0]
    done = ran(["bash", "-c", f'curl() {{ /usr/bin/curl -sS "$@"; }}; {command}'], check=True)
    assert json.loads(done.stdout) == {"data": [{"id": "model"}]}, found


@pytest.mark.parametrize(
    ("how", "options", "said"),
    [
        ("fails", [], "the server ended with status 3 before it answered: its last lines are above"),
        ("redirects", [], "/health answers 307 (location: http://elsewhere/), which is not followed: name the path"),
        ("has none", [], "/health answers 404: name the path that says"),
        ("everywhere", [], "was told to listen on 127.0.0.1, but listens on another address of localhost (00000000"),
        ("waits", ["--limit=8"], "the server did not answer at /health within 8 seconds: its last lines are above"),
        ("is busy", ["--limit=8"], "the server did not answer at /health but with 503 within 8 seconds"),
        ("is silent", ["--server=vllm", "--key-variable=VLLM_API_KEY"], "does not answer /v1/models, so that it"),
        ("open", ["--server=vllm", "--key-variable=VLLM_API_KEY"], "answers /v1/models without a key, so everybody"),
    ],
)
def test_a_disobedient_server_ends_with_the_reason(serve: Serve, how: str, options: list[str], said: str) -> None:
    output = serve.fails(*options, how=(how,))
    assert said in output.replace("Location", "location")
    assert "settings: {'api_key': '(key)'}" in output
    assert processes_with(f"{STANDIN} 127.0.0.1 {20000 + int(serve.job) % 187 * 64}") == []


def test_why_a_server_ended_stands_after_its_last_lines(serve: Serve) -> None:
    found = serve.ready()
    with suppress(http.client.HTTPException, ConnectionError):
        asked(f"{found['url']}/ends")
    lines = serve.output().splitlines()
    assert lines[-2:] == [
        "the last line",
        "serve: the server ended with status 3 after it was ready: its last lines are above",
    ]


def test_a_job_has_one_server(serve: Serve) -> None:
    found = serve.ready()
    second = serve.start()
    output = second.communicate(timeout=240)[0]
    assert second.returncode == 1
    assert f"this job serves a model already, whose key is in '{found['key_file']}': submit another job" in output
    assert asked(f"{found['url']}/v1/models", Path(found["key_file"]).read_text().strip()) == 200
    serve.running[0].terminate()
    serve.running[0].wait()
    for name in (found["key_file"], f"{found['key_file']}.new"):
        Path(name).write_text("left by the run before it was requeued")
    serve.ready(environ={"SLURM_RESTART_COUNT": "1"})


def test_an_address_that_other_nodes_do_not_reach_is_named(serve: Serve) -> None:
    serve.ready()
    serve.running[0].terminate()
    assert (
        "serve: 'localhost' is 127.0.0.1 on localhost, which only localhost reaches: the site's master_suffix must"
        in serve.output()
    )


def test_a_name_that_has_other_addresses_is_not_what_clients_are_told(serve: Serve, stub: Stubs) -> None:
    stub("getent", "echo 127.0.0.1 STREAM localhost; [ $1 != ahosts ] || echo ::1 STREAM localhost")
    found = serve.ready(environ={"PATH": f"{stub.folder}:/usr/bin:/bin"})
    assert found["url"].startswith("http://127.0.0.1:")


def test_a_site_may_let_servers_listen_everywhere(serve: Serve) -> None:
    assert asked(f"{serve.ready('--any-address', how=('everywhere',))['url']}/health") == 200


def test_a_killed_server_takes_its_files_along(serve: Serve) -> None:
    found = serve.ready()
    (serve.state / f"{serve.job}.new").touch()
    (server,) = processes_with(f"{sys.executable} {STANDIN} 127.0.0.1 {found['url'].rpartition(':')[2]}")
    os.kill(server, signal.SIGKILL)
    output = serve.output()
    assert (serve.running[0].returncode, list(serve.state.iterdir())) == (137, [])
    assert "the server ended with status 137 after it was ready" in output


def test_a_server_ends_although_its_runscript_was_killed(serve: Serve) -> None:
    """Its processes have another parent then, and not every Slurm finds them."""
    found = serve.ready(how=("child",))
    serve.running[0].kill()
    serve.running[0].wait()
    assert "settings" in serve.output()
    assert children_of(found) == []


def test_a_server_that_makes_itself_a_daemon_ends_with_the_job(serve: Serve) -> None:
    output = serve.fails(command=["bash", "-c", "(trap '' HUP; exec -a 'a daemon' sleep 600) & disown"])
    assert "the server ended with status 0 before it answered" in output
    assert processes_with("a daemon 600") == []


@pytest.mark.parametrize("strangers", [2, 4])
def test_a_server_whose_port_is_taken_starts_again_a_few_times(serve: Serve, strangers: int) -> None:
    """Strangers listen at its port before it does, or only bind it, which no list of the kernel's shows."""
    ports: list[int] = []

    def next_port() -> int:
        until(lambda: len(list(serve.home.glob("at *"))) > len(ports))
        ports.extend({int(path.name[3:]) for path in serve.home.glob("at *")} - {*ports})
        return ports[-1]

    def take() -> None:
        for number in range(strangers):
            stranger = stack.enter_context(socket.socket())
            stranger.bind(("127.0.0.1", next_port()))
            if number % 2:
                (serve.home / f"go {ports[-1]}").touch()
            else:
                stranger.listen()
        if strangers < 4:
            (serve.home / f"go {next_port()}").touch()

    script = 'touch "$HOME/at $4"; until [[ -e $HOME/go\\ $4 ]]; do sleep 0.1; done; exec "$@"'
    command = ["bash", "-c", script, "-", sys.executable, str(STANDIN), *HERE]
    first = 20000 + int(serve.job) % 187 * 64
    with ExitStack() as stack, socket.create_server(("127.0.0.1", first)):
        thread = threading.Thread(target=take)
        thread.start()
        output = serve.fails(command=command) if strangers == 4 else serve.ready(command=command)["url"]
        thread.join()
    assert ports[0] == first + 1
    assert len({port // 64 for port in ports}) > 1
    if strangers == 4:
        assert (
            f"port {ports[-1]} of localhost, or another that it needs, was in use, and the server ended with" in output
        )
        assert "the 4th time. Another user may do this on purpose" in output
    else:
        assert output == f"http://localhost:{ports[-1]}"
        said = f"serve: port {ports[0]} of localhost was taken by a process that is not of this server: it starts again"
        assert said in serve.said.decode()


def test_a_port_at_another_address_of_the_node_stops_no_server(serve: Serve) -> None:
    def take() -> None:
        until(lambda: (serve.state / f"{serve.job}.key").exists())
        stack.enter_context(socket.create_server(("127.0.0.2", 20000 + int(serve.job) % 187 * 64)))

    with ExitStack() as stack:
        thread = threading.Thread(target=take)
        thread.start()
        serve.ready(command=["bash", "-c", 'sleep 3; exec "$@"', "-", sys.executable, str(STANDIN), *HERE])
        thread.join()
    assert "starts again" not in serve.said.decode()


@pytest.mark.parametrize(
    ("environ", "options", "said"),
    [
        ({"SLURM_HET_SIZE": "2"}, [], "the job has components that differ (2)"),
        ({}, ["--nodes=2"], "the job has 1 tasks on 1 nodes, but the server was written for one task on each of 2"),
        ({"SLURM_STEP_NUM_TASKS": "4"}, [], "the job has 4 tasks on 1 nodes"),
        ({"SLURM_PROCID": "a[$(touch x)]"}, [], "SLURM_PROCID should be a number"),
        ({"SLURM_STEP_NODELIST": "no-such-node", "SLURMD_NODENAME": "no-such-node"}, [], "finds no address of 'no-su"),
        ({}, ["--what=x"], "'--what=x' is not an option"),
    ],
)
def test_steps_that_do_not_fit_are_named(serve: Serve, environ: dict[str, str], options: list[str], said: str) -> None:
    assert said in serve.fails(*options, environ=environ)
    assert not (serve.home / "x").exists()


def test_a_state_folder_that_leads_elsewhere_or_is_open_to_others_is_refused(serve: Serve) -> None:
    serve.state.parent.mkdir(parents=True)
    other = serve.home / "other"
    other.mkdir(mode=0o700)
    serve.state.symlink_to(other)
    assert "serve' is a link" in serve.fails()
    assert list(other.iterdir()) == []
    serve.state.unlink()
    serve.state.mkdir()
    serve.state.chmod(0o755)
    assert "is open to other users" in serve.fails()


@pytest.mark.parametrize("home", ["", "cache"])
def test_caches_are_the_users_own_and_not_where_the_job_was_submitted(serve: Serve, tmp_path: Path, home: str) -> None:
    names = "HF_HOME VLLM_CACHE_ROOT TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR HF_HUB_OFFLINE HF_TOKEN_PATH"
    names += " HF_MODULES_CACHE XDG_CACHE_HOME"
    clone = tmp_path / "it's a clone"
    for path in ("huggingface/hub/models--org--model", "huggingface/token", "vllm"):
        (clone / ".cache" / path).mkdir(parents=True)
    show = ["bash", "-c", f'for name in {names}; do echo "$name=${{!name-unset}}"; done']
    environ = {"SLURM_SUBMIT_DIR": str(clone), "HF_HOME": "", "VLLM_CACHE_ROOT": "", "XDG_CACHE_HOME": ".cache"}
    environ["HF_MODULES_CACHE"] = ""
    if home:
        environ["XDG_CACHE_HOME"] = f"{tmp_path}/{home}"
    caches = tmp_path / home if home else serve.home / ".cache"
    output = serve.fails("--offline", "--server=vllm", command=show, environ=environ)
    settings = dict(line.split("=", 1) for line in output.splitlines() if re.match("[A-Z_]+=", line))
    on_node = f"{serve.home}/sifmod-{os.getuid()}-{serve.job}"
    assert settings == {
        "HF_HOME": f"{caches}/huggingface",
        "VLLM_CACHE_ROOT": f"{caches}/vllm",
        "TRITON_CACHE_DIR": on_node,
        "TORCHINDUCTOR_CACHE_DIR": on_node,
        "HF_HUB_OFFLINE": "1",
        "HF_TOKEN_PATH": "unset",
        "HF_MODULES_CACHE": "unset",
        "XDG_CACHE_HOME": environ["XDG_CACHE_HOME"] if home else "unset",
    }
    assert f"fetch a model on a login node first, to HF_HOME={caches}/huggingface" in output
    assert (
        f"serve: models are kept in '{caches}/huggingface': for another folder set HF_HOME before sbatch, or" in output
    )
    command = output.partition("If they are yours, type before sbatch: ")[2].splitlines()[0]
    typed = subprocess.run(["bash", "-c", f"{command}; echo $HF_HOME"], capture_output=True, text=True, check=True)
    assert typed.stdout == f"{clone}/.cache/huggingface\n"
    output = serve.fails("--server=vllm", command=show, environ={**environ, "HF_HOME": "/own", "VLLM_CACHE_ROOT": "/v"})
    assert "HF_HOME=/own\nVLLM_CACHE_ROOT=/v\n" in output
    assert "models" not in output


def test_a_server_that_is_known_runs_no_code_of_the_folder_it_starts_in(serve: Serve) -> None:
    """What multiprocessing starts is `python -c`, and looks there first."""
    if sys.version_info < (3, 11):
        pytest.skip("Python has PYTHONSAFEPATH since 3.11")
    for name in ("multiprocessing", "struct", "torch", "sitecustomize", "usercustomize"):
        (serve.home / f"{name}.py").write_text(f"print('code of {name}.py')")
    (serve.home / "org" / "model").mkdir(parents=True)
    script = serve.top / "server"
    script.write_text(
        "import multiprocessing\nif __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('spawn').Process(target=print, args=('child',))\n"
        "    child.start()\n    child.join()\n"
    )
    command = [sys.executable, str(script), "org/model"]
    output = serve.fails("--server=vllm", command=command, environ={"PYTHONPATH": ":/nowhere::/nowhere:"})
    assert "\nchild\n" in output
    assert "code of" not in output
    assert "serve: 'org/model' is a folder here, and is taken for the model of that name of a hub" in output


def test_requests_of_a_file_are_answered_and_the_job_ends(serve: Serve) -> None:
    bodies: list[dict[str, object]] = [{"n": n} for n in range(20)]
    bodies.append({"cut": "\ud800"})
    requests = [
        {"custom_id": f"r\ud800{n}", "url": "/v1/chat/completions", "body": one} for n, one in enumerate(bodies)
    ]
    (serve.home / "requests.jsonl").write_text("\n".join(map(json.dumps, requests)) + "\n")
    path = serve.home / "requests.jsonl.answers.jsonl"
    before = [
        '{"custom_id": "r\\ud8000", "error": null}',
        '{"custom_id": "r\\ud8001", "error": {"message": "x"}}',
        '{"custom_id": "r\\u',
    ]
    path.write_text("\n".join(before))
    process = serve.start("--batch=requests.jsonl")
    output = process.communicate(timeout=240)[0]
    assert process.returncode == 1, output
    assert "serve: 20 answers more in requests.jsonl.answers.jsonl, 1 of them errors: a job" in output
    lines = path.read_text().splitlines()
    assert lines[:2] == before[:2]
    answers = {one["custom_id"]: one for one in map(json.loads, lines[2:])}
    assert "IncompleteRead" in answers.pop("r\ud80020")["error"]["message"]
    assert {name: one["response"]["body"]["asked"]["n"] for name, one in answers.items()} == {
        f"r\ud800{n}": n for n in range(1, 20)
    }
    assert list(serve.state.iterdir()) == []
    (serve.home / "ends.jsonl").write_text('{"custom_id": "1", "url": "/", "body": {"ends": true}}\n')
    assert "the server ended with status 3 while it answered" in serve.fails("--batch=ends.jsonl")
    output = serve.fails(f"--batch={STANDIN}")
    assert f"line 1 of '{STANDIN}' is not a request" in output
    assert "settings" not in output, "it is said before a model is loaded"


def test_a_file_that_has_no_requests_is_named_before_one_is_sent(tmp_path: Path) -> None:
    (tmp_path / "batch.py").write_text(program("batch"))
    (tmp_path / "key").write_text("k\n")
    request = '{"custom_id": "1", "url": "/", "body": {}}'
    for text, said in (
        ("", "has no requests"),
        (f"{request}\n{request}", "line 2 of 'file' has the custom_id of an earlier line"),
        (request.replace('"/"', '"/a b"'), "line 1 of"),
        ("[" * 100_000, "line 1 of"),
        ('{"custom_id": "1", "url": "http://elsewhere/", "body": {}}', "line 1 of"),
        ("[]", "line 1 of"),
        (f"{request}\n{{", "line 2 of 'file' is not a request"),
        (f"{request}\n{request.replace('1', 'é')}", "line 2 of 'file' is not a request"),
    ):
        (tmp_path / "file").write_text(text, encoding="latin-1")
        command = [sys.executable, "-I", "batch.py", "http://127.0.0.1:9", "key", "file"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert not (tmp_path / "file.answers.jsonl").exists()
    (tmp_path / "file").write_text(request)
    (tmp_path / "file.answers.jsonl").write_text('{"custom_id": "1", "error": null}\n')
    os.utime(tmp_path / "file.answers.jsonl", (0, 0))
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, "'file' was changed after" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ("rm p; mkfifo p", "'{}' is not a file"),
        ("rm p; mkdir p", "'{}' can't be read: Is a directory"),
        ("chmod 500 .", "'{}.answers.jsonl', where the answers go, can't be written (Permission denied): move it"),
        ("ln -s ../mine p.answers.jsonl", "'{}.answers.jsonl', where the answers go, is a link: move it"),
        ("ln -s nowhere p.answers.jsonl", "'{}.answers.jsonl', where the answers go, is a link: move it"),
        ("ln ../mine p.answers.jsonl", "is not a file that has this name alone"),
        ("mkfifo p.answers.jsonl", "is not a file that has this name alone"),
        ("mkdir p.answers.jsonl", "can't be written (Is a directory)"),
    ],
)
def test_a_batch_with_files_that_lead_elsewhere_is_refused(tmp_path: Path, setup: str, said: str) -> None:
    """The folder may be a clone, or shared. The files are looked at before the server starts, and when it answers."""
    (tmp_path / "batch.py").write_text(program("batch"))
    (tmp_path / "key").write_text("k\n")
    (tmp_path / "mine").write_text("alias x=y\nhalf a line")
    path = tmp_path / "clone" / "p"
    path.parent.mkdir()
    path.write_text('\ufeff{"custom_id": "1", "url": "/", "body": {}}\r\n', encoding="utf-8")
    subprocess.run(["bash", "-ec", setup], cwd=path.parent, check=True)
    for url in ("", "http://127.0.0.1:9"):
        command = [sys.executable, "-I", "batch.py", url, "key", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)
        if os.geteuid() or not setup.startswith("chmod"):
            assert (done.returncode, said.format(path) in done.stderr) == (2, True), done.stderr
    assert (tmp_path / "mine").read_text() == "alias x=y\nhalf a line"
    assert not (path.parent / "nowhere").exists()


@pytest.mark.parametrize(
    ("name", "link", "target"), [("clone/p.answers.jsonl", "clone/link", "../mine"), ("clone", "link", "away")]
)
def test_answers_stay_in_a_folder_with_exchanged_names(tmp_path: Path, name: str, link: str, target: str) -> None:
    for folder in ("clone", "away"):
        (tmp_path / folder).mkdir()
    request = '{"custom_id": "1", "url": "/", "body": {}}\n'
    # empty lines take time between the look at one file and the other
    for file, text in (
        ("clone/p", request + "\n" * 20_000),
        ("clone/p.answers.jsonl", ""),
        ("mine", "mine"),
        ("key", "k"),
    ):
        (tmp_path / file).write_text(text)
    (tmp_path / link).symlink_to(target)
    with exchanging(tmp_path / name, tmp_path / link):
        statuses = [batch.main("http://127.0.0.1:9", f"{tmp_path}/key", f"{tmp_path}/clone/p") for _ in range(300)]
    assert {*statuses} == {1, 2}
    assert (tmp_path / "mine").read_text() == "mine"
    assert list((tmp_path / "away").iterdir()) == []


def test_a_server_that_reads_its_key_from_a_file_gets_one_that_is_yaml(serve: Serve) -> None:
    show = ["bash", "-c", 'cat "$0"; echo "${0##*/}"', "{key_config}"]
    output = serve.fails("""--key-config=api-key: "{key}\"""", command=show)
    assert f'api-key: "(key)"\n{serve.job}.yaml\n' in output


@pytest.mark.parametrize(("mode", "kept"), [(0o755, True), (0o777, False)])
def test_what_vllm_compiles_is_kept_where_nobody_else_can_put_theirs(serve: Serve, mode: int, kept: bool) -> None:
    caches = serve.home / ".cache"
    caches.mkdir()
    caches.chmod(mode)
    output = serve.fails("--server=vllm", command=["bash", "-c", 'echo "at $VLLM_CACHE_ROOT"'])
    assert (f"at {caches}/vllm\n" in output) == kept
    assert (f"at {serve.home}/sifmod-{os.geteuid()}-{serve.job}\n" in output) != kept
    assert ("chmod +t if they need it), so what vLLM compiles is this job's own" in output) != kept


@pytest.mark.parametrize(
    "how",
    [
        ["--member=echo joins {head}:{join} as {rank} of {nodes} by {key_file}"],
        ["--several={head}:{join}", "--others=as {rank} of {nodes} by {key_file}"],
    ],
)
def test_members_wait_for_node_0_and_run_what_joins_it(serve: Serve, how: list[str]) -> None:
    options = ("--nodes=2", *how, "--variable=TOKEN={key_file}")
    process = serve.start(*options, command=["echo", "joins"], environ=MEMBER)
    time.sleep(0.5)
    assert process.poll() is None
    serve.state.mkdir(parents=True, exist_ok=True)
    for name, text in (("key", "0f" * 32), ("ports", "20064"), ("json", "{}")):
        (serve.state / f"{serve.job}.{name}").write_text(f"{text}\n")
    output = process.communicate(timeout=240)[0]
    assert f"joins 127.0.0.1:20096 as 1 of 2 by {serve.state}/{serve.job}.key" in output
    # of task 0
    assert (serve.state / f"{serve.job}.key").exists()


def test_members_follow_node_0_to_other_ports_and_end_well_with_it(serve: Serve) -> None:
    """Slurm would kill them, and the job would have failed."""
    serve.state.mkdir(parents=True, mode=0o700)
    key = write_file(serve.state / f"{serve.job}.key", "0f" * 32 + "\n")
    show = 'echo "at $1 with $TOKEN"; sleep 60'
    options = ("--nodes=2", "--batch=x", "--variable=TOKEN={join}")
    process = serve.start(*options, command=["bash", "-c", show, "-", "{join}"], environ=MEMBER)
    assert process.stdout
    for block in (20064, 20128):
        key.with_suffix(".ports").write_text(f"{block}\n")
        assert process.stdout.readline() == f"at {block + 32} with {block + 32}\n"
        key.with_suffix(".ports").unlink()
    key.unlink()
    assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("2.51.9", "has 'ray, version 2.51.9', which lets everybody on the network join without a key: install 2.52"),
        ("$PYTHONSAFEPATH $PYTHONPATH", "'ray --version' prints 'ray, version 1 /x', without a version"),
        ("2.100.0", ""),
        ("3.0.0.dev0", ""),
    ],
)
def test_nodes_join_node_0_which_asks_for_the_key(serve: Serve, stub: Stubs, release: str, said: str) -> None:
    """No node is told to join while a stranger listens where it would."""
    listen = "import socket, sys, time; server = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(600)"
    stub(
        "ray",
        f"""[ "$1" != --version ] || {{ echo a warning; echo ray, version {release}; exit; }}
        touch "$HOME/at $2"; until [ -e "$HOME/go $2" ]; do sleep 0.1; done
        exec {sys.executable} -c "{listen}" "$2"
        """,
    )
    environ = {**MEMBER, "SLURM_PROCID": "0", "PATH": f"{stub.folder}:/usr/bin:/bin"}
    options = ("--nodes=2", "--head=ray start {join}", "--oldest=2.52")
    if said:
        assert said in serve.fails("--server=vllm-ray", *options, environ={**environ, "PYTHONPATH": ":/x:"})
        assert not list(serve.home.glob("at *"))
        return
    joins: list[str] = []

    def take() -> None:
        until(lambda: bool(list(serve.home.glob("at *"))))
        joins.append(next(serve.home.glob("at *")).name[3:])
        stack.enter_context(socket.create_server(("127.0.0.1", int(joins[0]))))
        until(lambda: len(list(serve.home.glob("at *"))) == 2)
        joins.extend({path.name[3:] for path in serve.home.glob("at *")} - {*joins})
        assert not (serve.state / f"{serve.job}.ports").exists()
        (serve.home / f"go {joins[1]}").touch()

    with ExitStack() as stack:
        thread = threading.Thread(target=take)
        thread.start()
        serve.ready(*options, environ=environ)
        thread.join()
    assert (serve.state / f"{serve.job}.ports").read_text() == f"{int(joins[1]) - 32}\n"
