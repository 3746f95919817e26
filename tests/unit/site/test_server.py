"""The rows of servers: those that are shipped, and a site's own."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from sifmod.cli import cli
from sifmod.errors import JobError, SiteError
from sifmod.site.server import OTHER, PLACES, load_servers, server_of

from ..support import a_site

SHIPPED = load_servers(a_site())


@pytest.mark.parametrize(
    ("command", "server", "model"),
    [
        ("vllm serve ORG/MODEL --max-model-len 4096", "vllm", "ORG/MODEL"),
        ("/opt/venv/bin/vllm serve --model=ORG/MODEL", "vllm", "ORG/MODEL"),
        ("python3 -m vllm.entrypoints.openai.api_server --model ORG/MODEL", "vllm", "ORG/MODEL"),
        ("python -m sglang.launch_server --model-path /scratch/m --tp 2", "sglang", "/scratch/m"),
        ("sglang serve --model-path /scratch/m", "sglang", "/scratch/m"),
        ("transformers serve --log-level debug", "transformers", ""),
        ("llama-server -m model.gguf --port {port}", "", ""),
        ("python -m", "", ""),
    ],
)
def test_a_server_is_known_by_its_command(command: str, server: str, model: str) -> None:
    found = server_of(command.split(), SHIPPED)
    assert (found.name, found.model_of(command.split())) == (server, model)


def test_requests_ask_for_a_model_by_the_name_that_it_is_given() -> None:
    command = ["vllm", "serve", "org/model", "--served-model-name", "short", "other"]
    found = server_of(command, SHIPPED)
    assert (found.model_of(command), found.name_of(command)) == ("org/model", "short")


def test_a_server_that_is_meant_is_named() -> None:
    for command in ("vlm serve M", "python -m sglang.lanch_server"):
        with pytest.raises(
            JobError, match=r"is not a server that is known \(perhaps you meant '(vllm|sglang.launch_server)'\)"
        ):
            server_of(command.split(), SHIPPED)
    assert server_of(["vlm", "{port}"], SHIPPED) == OTHER


def test_what_is_shipped_says_where_to_listen_and_how_the_key_comes_but_not_in_arguments() -> None:
    assert set(SHIPPED) == {"vllm", "vllm-ray", "sglang", "transformers"}
    for server in SHIPPED.values():
        assert "{host}" in server.arguments
        assert "{port}" in server.arguments
        assert "{key}" not in f"{server.arguments} {server.several} {server.head} {server.member}"
        assert [bool(server.key_variable), bool(server.key_config), server.keyless].count(True) == 1
        added = f"{server.arguments} {server.several} {server.others}".split()
        assert {word for word in added if word[0] == "-"} - {"--distributed-executor-backend"} <= {*server.refused}


def test_a_site_adds_and_replaces_rows(tmp_path: Path) -> None:
    path = tmp_path / "servers.toml"
    path.write_text(
        '[llama]\ncommands = ["llama-server"]\narguments = "--port {port} --api-key-file {key_file}"\n[vllm]\n'
    )
    found = load_servers(a_site(servers=(str(path),)))
    assert found["llama"].arguments == "--port {port} --api-key-file {key_file}"
    assert found["vllm"].commands == ()
    assert server_of(["x"], found, "llama") == found["llama"]
    assert server_of(["x"], found) == OTHER
    (tmp_path / "site.toml").write_text(f'servers = ["{path}"]\n')
    assert (
        "vllm, vllm-ray, sglang, transformers, llama"
        in CliRunner().invoke(cli, ["site", "check", "--site", f"{tmp_path}/site.toml"]).output
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[a]\narguments = "--api-key {key}"', "servers.toml', line 2"),
        ('[a]\narguments = "--api-key {key}"', "every user of a node can read the arguments"),
        ('[a]\nhead = "x {ports}"', f"there is no {{ports}}: use {', '.join(f'{{{one}}}' for one in PLACES)}"),
        ('[a]\nhealth = "health"', "'health' is not the path of a URL"),
        ('[a]\nhealth = "/x y"', "'/x y' is not the path of a URL"),
        ('[a]\nvariables = ["X"]', "'X' is not NAME=VALUE"),
        ('[a]\nkey_variable = "MY-KEY"', "'MY-KEY' is not a variable's name in capital letters"),
        ('[a]\nkey_config = "api-key: key"', "'api-key: key' does not say where the key stands: write {key} there"),
        ("[a]\nkeyles = true", "perhaps you meant 'keyless'"),
        ("a = 1", "write each server under a line [NAME]"),
        ('["a b"]\n', "write each server under a line [NAME]"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "servers.toml"
    path.write_text(text)
    with pytest.raises(SiteError) as caught:
        load_servers(a_site(servers=(str(path),)))
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_name_that_no_server_has_is_named() -> None:
    with pytest.raises(
        JobError, match=r"'vlm' is not a server .perhaps you meant 'vllm'.*: write --serve=vllm\|vllm-ray\|sglang"
    ):
        server_of(["x"], SHIPPED, "vlm")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sbatch A/1 --serve --batch lost.jsonl -- vllm serve M", "'lost.jsonl' is not here: the job needs it"),
        ("serve url --wait 12x", "'12x' is not the number of a job"),
        ("serve stop -- -1", "'-1' is not the number of a job"),
    ],
)
def test_a_batch_that_is_not_here_and_what_is_no_job_are_named(words: str, said: str) -> None:
    assert said in CliRunner().invoke(cli, words.split()).output
