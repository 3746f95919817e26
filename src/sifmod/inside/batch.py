"""Sends the requests of a file to a server of models, and writes its answers beside it.

    batch.py URL KEY_FILE FILE

Both files have the format of OpenAI's batches: a line of JSON for each request, with custom_id, url and body; and a
line with custom_id, response and error for each answer, in FILE.answers.jsonl, in the order of the answers. Exit
status: 0; 1 if a request got no answer, or another than 200; 2 if the file is not in this format: nothing was sent.
"""

import concurrent.futures
import json
import sys
import urllib.error
import urllib.request

# A server forms batches of what waits, and queues more than it has room for.
AT_ONCE = 64
LONGEST = 6 * 3600  # seconds for one answer


def requests_of(path: str) -> "list[dict[str, object]]":
    """Return the requests of a file; ValueError says which line is none."""
    found = []
    with open(path, encoding="utf-8") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                one = json.loads(line) if line.startswith("{") else {}
                if not (
                    isinstance(one.get("custom_id"), str)
                    and str(one.get("url")).startswith("/")
                    and isinstance(one.get("body"), dict)
                    and one.get("method", "POST") == "POST"
                ):
                    raise ValueError(
                        f"line {number} of '{path}' is not a request, such as "
                        '{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {...}}'
                    )
                found.append(one)
    if not found:
        raise ValueError(f"'{path}' has no requests")
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
    except (OSError, ValueError) as problem:
        error = str(problem)
    return {
        "custom_id": one["custom_id"],
        "response": {"status_code": status, "body": body} if status else None,
        "error": {"message": error} if error else None,
    }


def main(url: str, key_file: str, path: str) -> int:
    """Send the requests; return the exit status."""
    try:
        found = requests_of(path)
        with open(key_file, encoding="ascii") as stream:
            key = stream.read().strip()
    except (OSError, ValueError) as problem:
        print(f"serve: {problem}", file=sys.stderr)
        return 2
    failed, threads = 0, concurrent.futures.ThreadPoolExecutor(AT_ONCE)
    with open(f"{path}.answers.jsonl", "w", encoding="utf-8") as answers, threads:
        for done in concurrent.futures.as_completed([threads.submit(answered, url, key, one) for one in found]):
            failed += done.result()["error"] is not None
            answers.write(json.dumps(done.result(), ensure_ascii=False) + "\n")
    print(f"serve: {len(found)} answers in {path}.answers.jsonl, {failed} of them errors", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
