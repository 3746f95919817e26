"""HTTP to servers that are not trusted: an answer takes limited time, and is not sought in other protocols."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message
from functools import partial
from typing import IO, Any, Optional
from urllib.error import URLError

_SILENCE = 20  # seconds; a server that sends nothing for longer counts as unreachable
_WHOLE = 60  # seconds; the longest time for a whole answer, of which a server may send one byte now and then


@contextlib.contextmanager
def answer_to(request: urllib.request.Request) -> Iterator[http.client.HTTPResponse]:
    """Yield the answer of a server; the block can read it until its time is over, and then finds its end.

    Proxies are those of the environment, as for the runtimes.
    """
    handler = _Handler()
    try:
        with urllib.request.build_opener(handler, _Redirection()).open(request, timeout=_SILENCE) as answer:
            yield answer
    finally:
        for connection in handler.connections:
            connection.close()


class _Limited(http.client.HTTPConnection):
    """A connection that is ended when its time is over; reading from it finds the end of the answer then."""

    _ending: Optional[threading.Timer] = None
    _socket: Optional[socket.socket] = None
    _is_over = False

    def connect(self) -> None:
        self._ending = threading.Timer(_WHOLE, self._end)
        self._ending.daemon = True
        self._ending.start()
        super().connect()
        # `urllib` takes the socket away as soon as the headers are read
        self._socket = self.sock

    def getresponse(self) -> http.client.HTTPResponse:
        answer = super().getresponse()
        if self._is_over:  # headers that were cut off look like whole ones
            raise TimeoutError(f"no whole answer within {_WHOLE} seconds")
        return answer

    def close(self) -> None:
        if self._ending:
            self._ending.cancel()
        super().close()

    def _end(self) -> None:
        self._is_over = True
        # `sock` is there before the handshake of TLS, and before the answer of a proxy
        for one in (self.sock, self._socket):
            with contextlib.suppress(OSError):
                if one:
                    # of TLS too: its own method would pull the session from under a reader
                    socket.socket.shutdown(one, socket.SHUT_RDWR)


class _LimitedSecure(_Limited, http.client.HTTPSConnection):
    pass


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens limited connections only, and knows them."""

    def __init__(self) -> None:
        super().__init__()
        self.connections: list[http.client.HTTPConnection] = []

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._noted(_Limited), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._noted(partial(_LimitedSecure, context=ssl.create_default_context())), req)

    def _noted(self, kind: Callable[..., http.client.HTTPConnection]) -> Callable[..., http.client.HTTPConnection]:
        def connection(host: str, **options: Any) -> http.client.HTTPConnection:
            self.connections.append(kind(host, **options))
            return self.connections[-1]

        return connection


class _Redirection(urllib.request.HTTPRedirectHandler):
    """Follows redirections to HTTP only: `urllib` would follow them to FTP too."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Optional[urllib.request.Request]:
        if not newurl.startswith(("https://", "http://")):
            raise URLError(f"redirection to '{newurl}'")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type] # HTTPMessage
