"""Sends the requests of a file to a server of models, and writes its answers beside it.

    batch.py URL KEY_FILE FILE

Both files have the format of OpenAI's batches: a line of JSON for each request, with custom_id, url and body; and a
line with custom_id, response and error for each answer, in FILE.answers.jsonl, in the order of the answers. What has
an answer there without an error is not sent again, so a job that ended early can be submitted once more. Without URL,
the files are looked at and nothing is sent. Exit status: 0; 1 if a request got no answer, or another than 200; 2 if
the files are not what they should be: nothing was sent.
"""

import concurrent.futures
import http.client
import json
import os
import re
import sys
import threading
import urllib.error
import urllib.request

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


def requests_of(path: str) -> "list[dict[str, object]]":
    """Return the requests of a file; ValueError says which line is none."""
    found, names = [], set()
    # it is read once more, when the server answers
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"'{path}' is not a file")
    with open(path, "rb") as stream:
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
                found.append(one)
    if not found:
        raise ValueError(f"'{path}' has no requests")
    return found


def answered_before(answers: str, path: str) -> "set[object]":
    """Return which requests have an answer, and remove half a line at the end; ValueError if they may be of others.

    ValueError also if no answers can be written there.
    """
    found = set()
    if not os.access(answers if os.path.exists(answers) else os.path.dirname(answers) or ".", os.W_OK):
        raise ValueError(f"'{answers}' can't be written, where the answers would be: copy '{path}' elsewhere")
    try:
        with open(answers, "rb+") as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    stream.seek(-len(line), os.SEEK_END)
                    stream.truncate()
                elif not read(line).get("error", "is none"):
                    found.add(read(line).get("custom_id"))
    except FileNotFoundError:
        return set()
    if found and os.stat(path).st_mtime > os.stat(answers).st_mtime:
        raise ValueError(
            f"'{path}' was changed after '{answers}' was written, and what has an answer there is not sent: move that "
            f"file away to send all, or type: touch '{answers}'"
        )
    return found


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
    answers, key = f"{path}.answers.jsonl", ""
    try:
        found = requests_of(path)
        before = answered_before(answers, path)
        if not url:
            return 0
        with open(key_file, encoding="ascii") as stream:
            key = stream.read().strip()
    except (OSError, ValueError) as problem:
        print(f"serve: {problem}", file=sys.stderr)
        return 2
    asked = [one for one in found if one["custom_id"] not in before]
    threads, writing = concurrent.futures.ThreadPoolExecutor(AT_ONCE), threading.Lock()
    try:
        # a surrogate, which JSON may have and UTF-8 can't, is written as JSON has it
        with open(answers, "a", buffering=1, encoding="utf-8", errors="backslashreplace") as stream, threads:

            def ask(one: "dict[str, object]") -> bool:
                line = answered(url, key, one)
                with writing:
                    stream.write(json.dumps(line, ensure_ascii=False) + "\n")
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
