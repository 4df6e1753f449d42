# SPDX-License-Identifier: Apache-2.0
"""A client of gRPC over a unix socket that says what no library would say."""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) +
            struct.pack(">I", stream) + payload)


def literal(name, value):
    """A header of HPACK, as it is."""
    return (b"\x00" + bytes([len(name)]) + name.encode() +
            bytes([len(value)]) + value.encode())


def varint(number):
    """As protobuf writes lengths."""
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def message(body):
    return b"\x00" + struct.pack(">I", len(body)) + body


def call(method, stream, data):
    """The frames of a call, whose DATA is as given."""
    headers = b"".join(literal(name, value) for name, value in (
        (":method", "POST"), (":scheme", "http"), (":path", method),
        (":authority", "localhost"), ("content-type", "application/grpc"),
        ("te", "trailers")))
    frames = frame(HEADERS, END_HEADERS, stream, headers)
    for start in range(0, len(data), 16_384):
        frames += frame(DATA, 0, stream, data[start:start + 16_384])
    return frames + frame(DATA, END_STREAM, stream)


def connect(path):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(30)
    client.connect(path)
    return client


def frames_of(client):
    """(kind, flags, stream, payload) of each frame that comes, to the end."""
    with client.makefile("rb") as stream:
        while True:
            head = stream.read(9)
            if len(head) < 9:
                return
            length = int.from_bytes(head[:3], "big")
            number = int.from_bytes(head[5:9], "big")
            yield head[3], head[4], number, stream.read(length)


def status_of(headers):
    """The gRPC status in a block of headers; None if there is none."""
    at = headers.find(b"grpc-status")
    if at < 0:
        return None
    length = headers[at + 11] & 0x7F
    return int(headers[at + 12:at + 12 + length])


def ask(path, method, data):
    """The status and the messages that a call is answered with."""
    with connect(path) as client:
        client.sendall(PREFACE + frame(SETTINGS, 0, 0) + call(method, 1, data))
        answer = b""
        for kind, _, stream, payload in frames_of(client):
            if kind == DATA and stream == 1:
                answer += payload
            if kind == HEADERS and status_of(payload) is not None:
                return status_of(payload), answer[5:]
    raise AssertionError(f"no status for {method}")
