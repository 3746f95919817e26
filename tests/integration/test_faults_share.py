"""A shared container where another user, a full /dev/shm or a kill is in the way: tasks run, and no code of others.

A step is played without Slurm, in a user namespace with users of its own: user 1 runs it, user 2 is somebody else. They
have a /dev/shm of their own, and the runtime is a stand-in that makes namespaces and no more.
"""

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.lacking import lacking

from sifmod.resources import data_path
from sifmod.site.cache import FOREIGN, LINK

PLACE = "/dev/shm/sifmod-1"

NODE = """
set -euo pipefail
umask 022
mount -t tmpfs -o "mode=1777,$SHM" tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir -m 1777 /mnt/all
cp -r "$SHARE" /mnt/share
cp -r "$TOOLS" /mnt/bin
cd /
as() { setpriv --reuid "$1" --regid "$1" --clear-groups --inh-caps=-all -- "${@:2}"; }
# she COMMAND...: another user's, in the background
she() { exec setpriv --reuid 2 --regid 2 --clear-groups --inh-caps=-all -- "$@" >/dev/null 2>&1; }
# all tasks of a step are in their containers at once
meet='touch /mnt/all/in-$SLURM_JOB_ID.$SLURM_PROCID
for look in $(seq 1200); do [ "$(ls /mnt/all | grep -c "^in-$SLURM_JOB_ID[.]")" -lt 4 ] || break; sleep 0.05; done'
# step JOB: four tasks; each prints its mount namespace, and its status if that is not 0
step() {
    local rank tasks=()
    for rank in 0 1 2 3; do
        as 1 env SLURM_JOB_ID="$1" SLURM_STEP_ID=0 SLURM_GTIDS=0,1,2,3 SLURMD_NODENAME=nid001 \\
            SLURM_PROCID=$rank SLURM_LOCALID=$rank setsid \\
            bash -p /mnt/bin/task sh -c "readlink /proc/self/ns/mnt; $meet" || echo "status $?" &
        tasks+=("$!")
    done
    wait "${tasks[@]}"
}
# the last process that holds a container has ended
quiet() {
    local look
    for look in {1..1200}; do
        if ! pgrep -u 1 -f share/hold-container >/dev/null; then return; fi
        sleep 0.05
    done
    echo 'a holder stays'
}
"""

TASK = """set -euo pipefail
sifmod_root=/mnt sifmod_image=/etc/os-release sifmod_runtime=/mnt/bin/runtime sifmod_options=() sifmod_shareable=''
sifmod_gpu_options=()
packed_is_active() { false; }
more_values() { :; }
source /mnt/share/share-container.sh
share_container exec "$@"
exec /mnt/bin/runtime exec "$sifmod_image" "$@"
"""
RUNTIME = '#!/bin/bash\nshift 2\nexec unshare --user --map-current-user --mount -- "$@"\n'
# of a runtime that is installed with setuid, which needs no user namespace
SETUID = '#!/bin/bash\nshift 2\nexec "$@"\n'

OWN = "no shared container on nid001, so each task has its own: "


class Node:
    """Runs a script on the node that is played."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(
        self, script: str, *, shm: str = "size=1m", runtime: str = RUNTIME, tools: Mapping[str, str] = {}
    ) -> subprocess.CompletedProcess[str]:
        folder = self._folder / "tools"
        folder.mkdir(exist_ok=True)
        for name, text in {"task": TASK, "runtime": runtime, **tools}.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        return subprocess.run(
            ["unshare", "--user", "--map-auto", "--map-root-user", "--mount", "bash", "-c", NODE + script],
            env={
                "PATH": "/mnt/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                "SHM": shm,
                "SHARE": str(data_path("wrappers") / "share"),
                "TOOLS": str(folder),
                "LC_ALL": "C.UTF-8",
            },
            capture_output=True,
            text=True,
            timeout=500,
            check=True,
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    try:
        subprocess.run(["unshare", "--user", "--map-auto", "--map-root-user", "--mount", "true"], check=True)
    except (OSError, subprocess.CalledProcessError):
        lacking("no user namespaces with subordinate users (/etc/subuid) here")
    return Node(tmp_path)


def containers(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the containers of the tasks, all of which have ended well."""
    lines = done.stdout.splitlines()
    assert all(line.startswith("mnt:") for line in lines), done
    return lines


def test_tasks_share_a_container_of_which_an_empty_folder_stays(node: Node) -> None:
    done = node.run(f"step 1; quiet; find {PLACE} -mindepth 1 >&2; stat -c '%a %u' {PLACE} >&2")
    assert len(containers(done)) == 4
    assert len(set(containers(done))) == 1
    assert done.stderr == "700 1\n"


# What a user does who looks over the shoulder: asked by a stand-in, she makes the folder right before the holder does,
# opens it to all, and puts a folder of hers in place of the link, with a line for the tasks in it.
SHE = f"""
until [[ -e /mnt/all/asked ]]; do sleep 0.01; done
/bin/mkdir -m 777 {PLACE} && touch /mnt/all/made
touch /mnt/all/answered
while true; do
    for name in {PLACE}/*; do
        if [[ ! -L $name ]]; then continue; fi
        target=$(readlink "$name")
        sleep 0.05
        mv "$name" {PLACE}/.old && mkdir "$name"
        for number in 10 11 12 14 15 16; do ln -s "$target/$number" "$name/$number"; done
        echo 'id -u >>/mnt/all/ran' >"$name/13"
    done
    sleep 0.01
done
"""
ASKS = """#!/bin/bash
if [[ "$*" == *sifmod-1* ]]; then
    touch /mnt/all/asked
    until [[ -e /mnt/all/answered ]]; do sleep 0.01; done
fi
exec /bin/mkdir "$@"
"""


def test_a_folder_that_another_user_makes_first_gets_no_link_and_no_code_of_hers_runs(node: Node) -> None:
    script = f"""umask 000
she bash -c {shlex.quote(SHE)} & she=$!
step 1
quiet
kill $she
if [[ -e /mnt/all/made ]]; then echo made >&2; fi
if [[ -e /mnt/all/ran ]]; then echo "her code ran as $(sort -u /mnt/all/ran)" >&2; fi
ls -A {PLACE} >&2
"""
    done = node.run(script, tools={"mkdir": ASKS})
    assert len(set(containers(done))) == 4
    assert done.stderr == f"task: {OWN}'{PLACE}' {FOREIGN}\nmade\n"


@pytest.mark.slow
def test_in_no_step_of_many_her_code_runs_whenever_she_makes_the_folder(node: Node) -> None:
    again = SHE.replace("while true", "for look in 1 2 3 4 5")
    script = f"""umask 000
touch /mnt/all/asked
she bash -c {shlex.quote(f"while true; do {again} done")} & she=$!
for job in {{1..20}}; do
    step "$job" 2>/dev/null
    quiet
    rm -rf {PLACE}
done
kill $she
if [[ -e /mnt/all/ran ]]; then echo "her code ran as $(sort /mnt/all/ran | uniq -c)"; fi
"""
    assert len(containers(node.run(script))) == 80


def test_a_link_that_another_user_puts_there_is_not_followed(node: Node) -> None:
    script = f"""mkdir -m 700 /mnt/all/private && chown 1:1 /mnt/all/private
as 2 ln -s /mnt/all/private {PLACE}
step 1; quiet; find /mnt/all/private -mindepth 1 >&2"""
    done = node.run(script)
    assert len(set(containers(done))) == 4
    assert done.stderr == f"task: {OWN}'{PLACE}' {LINK}\n"


# So many inodes, and so many pages: from a /dev/shm in which nothing can be made to one that is large enough. One inode
# is its root's.
FULL = [*(f"nr_inodes={count}" for count in range(2, 16)), *(f"size={count * 4}k" for count in range(1, 9))]
QUICK = ("nr_inodes=2", "nr_inodes=3", "nr_inodes=8", "size=4k", "size=8k")


@pytest.mark.parametrize("shm", [pytest.param(shm, marks=() if shm in QUICK else pytest.mark.slow) for shm in FULL])
def test_where_dev_shm_is_full_each_task_has_a_container_and_one_says_why(node: Node, shm: str) -> None:
    done = node.run(f"step 1; quiet; find {PLACE} -mindepth 1 2>/dev/null || :", shm=shm)
    found = containers(done)
    assert len(found) == 4
    if len(set(found)) == 1:
        assert done.stderr == ""
    else:
        assert done.stderr.startswith(f"task: {OWN}"), done.stderr
        assert "full" in done.stderr or "No space left" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_task_that_has_to_say_something_where_dev_shm_is_full_does_not_end(node: Node) -> None:
    """The container is there, and there is no room for the mark that one has said why it has its own."""
    tools = {"nsenter": '#!/bin/sh\nhead -c 2m /dev/zero >/dev/shm/fill 2>/dev/null\nexec /usr/bin/nsenter "$@"\n'}
    script = """
other() {
    as 1 env SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_GTIDS=0,1 SLURMD_NODENAME=nid001 SLURM_PROCID=$1 SLURM_LOCALID=$1 \\
        LANG=of-$1 setsid bash -p /mnt/bin/task sh -c "readlink /proc/self/ns/mnt; $2"
}
other 0 'touch /mnt/all/there; until [ -e /mnt/all/go ]; do sleep 0.05; done' &
until [[ -e /mnt/all/there ]]; do sleep 0.05; done
other 1 : || echo "status $?"
touch /mnt/all/go
wait"""
    runtime = RUNTIME.replace("exec unshare", "export LANG=C.UTF-8; exec unshare")
    done = node.run(script, tools=tools, runtime=runtime)
    assert len(set(containers(done))) == 2
    assert done.stderr.count("\n") <= 1


# A tool of the holder that kills it, before or after its work.
KILLS = """#!/bin/bash
if ! grep -q hold-container "/proc/$PPID/cmdline" || [[ -e /mnt/all/killed ]]; then exec /usr/bin/{name} "$@"; fi
touch /mnt/all/killed
{before}
/usr/bin/{name} "$@"
{after}
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ["ln", "mkdir", "mkfifo", "rm"])
def test_a_holder_that_is_killed_is_followed_by_another_which_clears_up(node: Node, name: str, when: str) -> None:
    kill = {"before": "", "after": "", when: 'kill -KILL "$PPID"'}
    script = f"""step 1; quiet; step 2; quiet; find {PLACE} -mindepth 1 -printf 'stays: %p\\n' >&2
if [[ ! -e /mnt/all/killed ]]; then echo 'not killed' >&2; fi"""
    done = node.run(script, tools={name: KILLS.format(name=name, **kill)})
    found = containers(done)
    assert len(found) == 8
    assert len(set(found[4:])) == 1
    assert "stays" not in done.stderr
    assert "not killed" not in done.stderr


def test_the_next_command_says_that_the_holder_was_killed(node: Node) -> None:
    task = "/mnt/bin/task readlink /proc/self/ns/mnt"
    variables = "SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_GTIDS=0 SLURMD_NODENAME=nid001 SLURM_PROCID=0"
    script = f"""as 1 env {variables} setsid bash -p -c '
bash -p {task}
holder=$(stat -c %N {PLACE}/1.0-nid001-0 | sed "s#.*/proc/##; s#/.*##")
kill -KILL "$holder"
while [[ $(ps -o stat= -p "$holder") == [!Z]* ]]; do sleep 0.05; done
bash -p {task}'"""
    done = node.run(script)
    assert len(containers(done)) == 2
    assert done.stderr == (
        "task: on nid001, the process that held this step's container was killed, as for want of memory: "
        "tasks in it lose their files\n"
    )


def test_a_link_to_a_process_that_has_the_number_of_a_killed_holder_is_replaced(node: Node) -> None:
    script = f"""setpriv --reuid 1 --regid 1 --clear-groups --inh-caps=-all -- sleep 600 >/dev/null 2>&1 & other=$!
until [[ $(stat -c %u "/proc/$other") == 1 ]]; do sleep 0.05; done
as 1 mkdir -m 700 {PLACE}
as 1 ln -s /proc/$other/fd {PLACE}/1.0-nid001-0
step 1; kill $other; quiet"""
    assert len(set(containers(node.run(script)))) == 1


def test_with_a_runtime_that_is_installed_with_setuid_each_task_has_its_own(node: Node) -> None:
    done = node.run("step 1; quiet", runtime=SETUID)
    assert len(containers(done)) == 4
    assert done.stderr == (
        "task: no shared container, so each task has its own: "
        "the runtime is installed with setuid, and only root can enter the container of one\n"
    )
