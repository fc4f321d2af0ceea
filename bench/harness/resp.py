"""A small synchronous Redis client: what the harness itself sends is not measured."""

import ast
import re
import socket


class ErrorReply(Exception):
    pass


def encoded(words):
    """A command's bytes. A character stands for a byte, as in what monitored() returns."""
    parts = [str(word).encode("latin-1") for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


class Connection:
    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(120)
        self._socket.connect(path)
        self._in = self._socket.makefile("rb")

    def close(self):
        self._in.close()
        self._socket.close()

    def command(self, *words):
        """Sends a command and returns its reply: text, an integer, None, or a list of these."""
        self._socket.sendall(encoded(words))
        return self._reply()

    def monitored(self, name):
        """After MONITOR: the words of the next command of that name that a client sends."""
        while True:
            line = self._in.readline().decode()
            words = [ast.literal_eval(w) for w in re.findall(r'"(?:[^"\\]|\\.)*"', line)]
            if words and words[0].upper() == name and " lua]" not in line:
                return words

    def _reply(self):
        line = self._in.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise ErrorReply(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest.decode()
        if kind == b"$":
            if int(rest) < 0:
                return None
            return self._in.read(int(rest) + 2)[:-2].decode(errors="replace")
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        raise ConnectionError(f"unreadable reply: {line!r}")
