"""What the servers of this user's jobs have written down is read without trust in it."""

import http.server
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sifmod.cli import cli
from sifmod.errors import SifmodError
from sifmod.host.serving import (
    FOLDER,
    GONE,
    ON_NODE,
    READY,
    SILENT,
    Serving,
    SlurmJob,
    forget,
    is_left,
    jobs_of_user,
    key_problem,
    lacking,
    number_of,
    opened_folder,
    servings,
    state_of,
    wait,
)

from ..support import Stubs

CONTENT = {
    "url": "http://nid001:20000",
    "key_file": "/home/me/.local/state/sifmod/serve/7.key",
    "node": "nid001",
    "health": "/health",
    "model": "org/model",
    "module": "vLLM/1",
    "since": "2026-11-26T12:00:00+0000",
    "cluster": "aurora",
}
SERVING = Serving("7", **CONTENT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / FOLDER
    path.mkdir(mode=0o700, parents=True)
    return path


def read(home: Path) -> tuple[list[Serving], list[str], list[str]]:
    with opened_folder(home) as descriptor:
        return servings(descriptor)


def test_servers_are_read_in_the_order_of_their_jobs(tmp_path: Path, folder: Path) -> None:
    for job in ("123", "7", "45"):
        (folder / f"{job}.json").write_text(json.dumps(CONTENT))
    for other in ("7.key", "x.json", "7.new", "9.key", "10.key.new", "11.other"):
        (folder / other).write_text("")
    found, damaged, unready = read(tmp_path)
    assert [one.job for one in found] == ["7", "45", "123"]
    assert found[0] == SERVING
    assert (damaged, unready) == ([], ["9", "10"])
    with opened_folder(tmp_path) as descriptor:
        assert not is_left("9", descriptor), "a server of another cluster may be on its way"
        os.utime(folder / "9.key", (0, 0))
        assert [is_left(job, descriptor) for job in ("9", "10", "11")] == [True, False, False]


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "file:///etc/passwd"},
        {"url": "http://nid001:20000@elsewhere:1"},
        {"url": "http://nid001:20000/\r\nX: y"},
        {"url": "http://nid001:99999"},
        {"health": "health"},
        {"health": "/ HTTP/1.1\r\nX: y"},
        {"model": 7},
        {"node": None},
        {"model": "x" * 9000},
    ],
)
def test_what_serve_does_not_write_is_not_believed(tmp_path: Path, folder: Path, changes: dict[str, Any]) -> None:
    (folder / "7.json").write_text(json.dumps({**CONTENT, **changes}))
    assert read(tmp_path) == ([], ["7.json"], [])


def test_neither_links_nor_pipes_nor_endless_files_are_read(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "other").write_text(json.dumps(CONTENT))
    (folder / "1.json").symlink_to(tmp_path / "other")
    os.mkfifo(folder / "2.json")
    (folder / "3.json").write_text(json.dumps(CONTENT) + " " * (1 << 20) + "x")
    (folder / "4.json").write_text("[" * 60_000)
    (folder / "5.json").mkdir()
    assert read(tmp_path) == ([], ["1.json", "2.json", "3.json", "4.json", "5.json"], [])


def test_a_file_that_vanishes_is_not_damaged(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "7.json").write_text(json.dumps(CONTENT))
    monkeypatch.setattr("os.listdir", lambda _folder: ["6.json", "7.json"])
    assert read(tmp_path) == ([SERVING], [], [])


def test_a_folder_that_others_may_change_is_refused(tmp_path: Path, folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(SifmodError, match="can be written to by others"), opened_folder(tmp_path):
        pass
    folder.chmod(0o700)
    folder.rmdir()
    with opened_folder(tmp_path) as descriptor:
        assert descriptor == -1
    folder.symlink_to("/usr")
    if os.geteuid():
        with pytest.raises(SifmodError, match="leads to a folder of another user"), opened_folder(tmp_path):
            pass


def test_a_key_that_others_can_read_is_named(tmp_path: Path, folder: Path) -> None:
    def problem() -> str:
        with opened_folder(tmp_path) as descriptor:
            return key_problem(SERVING, descriptor)

    assert "No such file" in problem()
    key = folder / "7.key"
    key.write_text("k")
    key.chmod(0o600)
    assert problem() == ""
    key.chmod(0o640)
    assert "others can read" in problem()
    key.unlink()
    key.symlink_to("/etc/hostname")
    assert "not a file of yours" in problem()


@pytest.fixture
def port() -> Iterator[int]:
    """A server that answers with the status that its path is; 307 leads to 200."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            while self.path == "/slow":
                self.wfile.write(b"H")
                time.sleep(0.1)
            self.send_response(int(self.path[1:]))
            self.send_header("Location", "/200")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server.server_port
        server.shutdown()


def test_a_server_is_asked_at_its_health_path(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = replace(SERVING, url=f"http://127.0.0.1:{port}", health="/200")
    jobs = frozenset({"7"})

    def state(serving: Serving, jobs: frozenset[str] = jobs) -> str:
        return state_of(serving, jobs, cluster="aurora")

    assert state(serving) == READY
    assert [state(replace(serving, health=path)) for path in ("/307", "/503")] == [SILENT, SILENT]
    assert state(serving, frozenset({"8"})) == GONE
    assert state(replace(serving, cluster="borealis"), frozenset({"8"})) == READY, "a home may be that of two clusters"
    assert state(replace(serving, key_file="")) == ON_NODE
    assert state(replace(serving, url="http://127.0.0.1:9")) == SILENT
    monkeypatch.setattr("sifmod.host.serving._SECONDS", 0.2)
    assert state(replace(serving, health="/slow")) == SILENT


def test_user_variables_are_ignored(tmp_path: Path, folder: Path, stub: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of one element of an array is that of the array."""
    for name in ("HOME", "SQUEUE_STATES", "SCANCEL_STATE", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, str(tmp_path))
    for job, cluster in (("7", "aurora"), ("8", "borealis")):
        (folder / f"{job}.json").write_text(json.dumps({**CONTENT, "url": "http://127.0.0.1:9", "cluster": cluster}))
    stub("squeue", '[ "$1$SQUEUE_STATES$SLURM_CLUSTERS" = --all ] && echo 7 7_3 R None && echo 8 8 R None')
    stub("scontrol", f"echo asked >>{tmp_path}/calls; echo 'ClusterName = aurora'")
    stub("scancel", f'echo "$SCANCEL_STATE$*" >>{tmp_path}/calls')
    done = CliRunner().invoke(cli, ["serve", "stop", "7"])
    assert (done.exit_code, (tmp_path / "calls").read_text()) == (0, "asked\n7_3\n"), done.output
    assert "job 8 is one of the cluster borealis" in str(CliRunner().invoke(cli, ["serve", "stop", "8"]).exception)
    for job in ("7", "8"):
        (folder / f"{job}.json").rename(folder / f"{job}.key")
    assert "starting" in CliRunner().invoke(cli, ["serve", "list"]).stdout
    assert (tmp_path / "calls").read_text() == "asked\n7_3\nasked\n", "for a server that answers the cluster counts"


@pytest.mark.parametrize(("job", "ended"), [("9_1", "9_1"), ("9", "9_[1-3]"), ("10", "10"), ("11", "")])
def test_a_queued_server(tmp_path: Path, stub: Stubs, monkeypatch: pytest.MonkeyPatch, job: str, ended: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    stub("squeue", "echo '9 9_[1-3] PD Priority\n10 10 PD None\n11 11 PD Resources'")
    stub("scontrol", f'[ "$3" = 11 ] || [ "$1$2$4" != "writebatch_script-" ] || echo "state=~/{FOLDER}/7"')
    stub("scancel", f'echo "$*" >{tmp_path}/calls')
    done = CliRunner().invoke(cli, ["serve", "stop", job])
    if ended:
        assert (done.stdout, (tmp_path / "calls").read_text()) == (f"job {ended} is out of the queue\n", f"{ended}\n")
    else:
        assert "job 11 is in the queue (Resources); to take it out, scancel 11" in str(done.exception)
        assert not (tmp_path / "calls").exists()


def test_who_waits_for_a_server_is_told_when_its_job_ends(tmp_path: Path, folder: Path, stub: Stubs) -> None:
    """Job 7 writes its file while it is waited for, job 9 is in the queue; of job 8 Slurm knows only its output."""
    stub("squeue", "echo '7 6_2 R None\n6 6_3 R None\n9 9_[1-3] PD (a) b\n10 10 PD None'")
    stub("scontrol", "echo '   StdOut=/home/me/a b.out'")
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        (folder / "7.json").write_text(json.dumps(CONTENT))

    wait("6_2", tmp_path, say)
    assert said == ["job 6_2 runs, and no server of it answers, or not yet: see '/home/me/a b.out'"]
    assert read(tmp_path)[0] == [SERVING]
    with pytest.raises(SifmodError, match="job 8 is over, or not yours: see '/home/me/a b"):
        wait("8", tmp_path, said.append)
    jobs: Mapping[str, SlurmJob] = jobs_of_user()
    assert lacking("9_1", jobs) == "job 9_1 is in the queue ((a) b); to take it out, scancel 9_1"
    assert [number_of(job, jobs) for job in ("6_1", "6_2", "9_1", "9_4", "8")] == ["", "7", "9", "", ""]
    assert lacking("10", jobs) == "job 10 is in the queue; to take it out, scancel 10"
    jobs = {"9": SlurmJob("9_[1,3,5-9:2%4]", "None")}
    assert [job for job in range(11) if number_of(f"9_{job}", jobs)] == [1, 3, 5, 7, 9]


def test_what_a_job_has_left_is_removed_and_nothing_else(tmp_path: Path, folder: Path) -> None:
    for name in ("7.json", "7.key", "77.json", "mine"):
        (folder / name).touch()
    with opened_folder(tmp_path) as descriptor:
        forget("7", descriptor)
    assert sorted(path.name for path in folder.iterdir()) == ["77.json", "mine"]
    (folder / "8.key").mkdir()
    with opened_folder(tmp_path) as descriptor, pytest.raises(SifmodError, match=r"serve/8.key' of job 8, which is"):
        forget("8", descriptor)
