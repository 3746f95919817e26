"""Sends the requests of a file to a server of models, and writes its answers beside it.

    batch.py URL KEY_FILE FILE

Both files have the format of OpenAI's batches: a line of JSON for each request, with custom_id, url and body; and a
line with custom_id, response and error for each answer, in FILE.answers.jsonl, in the order of the answers. What has
an answer there without an error is not sent again, so a job that ended early can be submitted once more. Without URL,
the files are looked at and nothing is sent. Exit status: 0; 1 if a request got no answer, or another than 200; 2 if
the files are not what they should be: nothing was sent.
"""

import concurrent.futures
import errno
import http.client
import json
import os
import re
import stat
import sys
import threading
import urllib.error
import urllib.request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

# A server forms batches of what waits, and queues more than it has room for.
AT_ONCE = 64
LONGEST = 6 * 3600  # seconds for one answer


def read(line: "str | bytes") -> "dict[str, object]":
    """Return the object of a line; an empty one if there is none."""
    try:
        one = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return one if isinstance(one, dict) else {}


def requests_of(folder: int, path: str) -> "tuple[list[dict[str, object]], float]":
    """Return the requests of a file in an open folder, and when it was changed; ValueError names the malformed line."""
    requests, names = [], set()
    descriptor = os.open(os.path.basename(path), os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        # it is read once more, when the server answers
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"'{path}' is not a file")
        for number, line in enumerate(stream, 1):
            if line.strip():
                one = read(line)
                name = one.get("custom_id")
                if not (
                    isinstance(name, str)
                    and re.fullmatch("/[!-~]*", str(one.get("url")))
                    and isinstance(one.get("body"), dict)
                    and one.get("method", "POST") == "POST"
                ):
                    raise ValueError(
                        f"line {number} of '{path}' is not a request, such as "
                        '{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {...}}'
                    )
                if name in names:
                    raise ValueError(f"line {number} of '{path}' has the custom_id of an earlier line")
                names.add(name)
                requests.append(one)
    if not requests:
        raise ValueError(f"'{path}' has no requests")
    return requests, status.st_mtime


def open_answers(folder: int, path: str, *, make: bool) -> "BinaryIO | None":
    """Open the file for the answers in an open folder; None if it is missing and not to be made.

    A clone or an archive may have brought it: a link would have the answers written to another file of this user.
    ValueError if they can't be written there.
    """
    problem, descriptor = "", -1
    try:
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if make else 0)
        descriptor = os.open(os.path.basename(path), flags, 0o600, dir_fd=folder)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            problem = "is not a file that has this name alone"
        elif status.st_uid != os.geteuid():
            problem = "belongs to another user"
    except OSError as error:
        reason = error.strerror
        if error.errno == errno.ENOENT and not make:
            if os.access(".", os.W_OK, dir_fd=folder):
                return None
            reason = os.strerror(errno.EACCES)
        problem = "is a link" if error.errno == errno.ELOOP else f"can't be written ({reason})"
    if problem:
        if descriptor >= 0:
            os.close(descriptor)
        raise ValueError(f"'{path}', where the answers go, {problem}: move it away, or copy the prompts elsewhere")
    return os.fdopen(descriptor, "r+b")


def answered_before(stream: "BinaryIO", path: str, changed: float) -> "set[object]":
    """Return the names of the requests with an answer, and remove half a line at the end.

    ValueError if the requests may be others: the file with this path was changed later.
    """
    names, size, is_newer = set(), 0, changed > os.fstat(stream.fileno()).st_mtime
    for line in stream:
        if not line.endswith(b"\n"):
            stream.truncate(size)
            break
        size += len(line)
        if not read(line).get("error", "is none"):
            names.add(read(line).get("custom_id"))
    if names and is_newer:
        raise ValueError(
            f"'{path}' was changed after '{path}.answers.jsonl' was written, and what has an answer there is not sent: "
            f"move that file away to send all, or type: touch '{path}.answers.jsonl'"
        )
    return names


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key is for this server alone."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


def answered(url: str, key: str, one: "dict[str, object]") -> "dict[str, object]":
    """Return the line for the answer to a request."""
    # a proxy of the site is for the internet
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect())
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{url}{one['url']}", json.dumps(one["body"]).encode(), headers)  # noqa: S310 - http
    status, body, error = 0, None, ""
    try:
        with opener.open(request, timeout=LONGEST) as response:
            status, body = response.status, json.loads(response.read().decode())
    except urllib.error.HTTPError as refusal:
        status, body, error = refusal.code, refusal.read(65536).decode(errors="replace"), str(refusal)
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as problem:
        error = str(problem) or repr(problem)
    return {
        "custom_id": one["custom_id"],
        "response": {"status_code": status, "body": body} if status else None,
        "error": {"message": error} if error else None,
    }


def main(url: str, key_file: str, path: str) -> int:
    """Send the requests; return the exit status."""
    answers, key, before, place = f"{path}.answers.jsonl", "", set(), path
    try:
        # both files are in the folder that was opened, whatever has its name later
        folder = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY)
        requests, changed = requests_of(folder, path)
        stream = open_answers(folder, answers, make=bool(url))
        if stream:
            before = answered_before(stream, path, changed)
        if not url or not stream:
            return 0
        place = key_file
        with open(key_file, encoding="ascii") as key_stream:
            key = key_stream.read().strip()
    except OSError as error:
        print(f"serve: '{place}' can't be read: {error.strerror}", file=sys.stderr)
        return 2
    except ValueError as problem:
        print(f"serve: {problem}", file=sys.stderr)
        return 2
    asked = [one for one in requests if one["custom_id"] not in before]
    threads, writing = concurrent.futures.ThreadPoolExecutor(AT_ONCE), threading.Lock()
    try:
        with stream as lines, threads:

            def ask(one: "dict[str, object]") -> bool:
                line = answered(url, key, one)
                # a surrogate, which JSON may have and UTF-8 can't, is written as JSON has it
                text = (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
                with writing:
                    lines.write(text)
                    lines.flush()
                return line["error"] is not None

            # what waits is not asked any more if an answer can't be written
            failed = sum(threads.map(ask, asked))
    except OSError as problem:
        print(f"serve: the answers can't be written: {problem}", file=sys.stderr)
        return 1
    again = f", {failed} of them errors: a job with the same file asks these again" if failed else ""
    print(f"serve: {len(asked)} answers more in {answers}{again}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
