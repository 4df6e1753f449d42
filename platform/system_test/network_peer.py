# SPDX-License-Identifier: Apache-2.0
"""The hosts of run_test.py: a script that it runs in network namespaces.

Usage: network_peer.py WORD [ARGUMENT…]
"""

import hashlib
import http.server
import os
import random
import socket
import struct
import sys
import threading
import urllib.request

PATIENCE_S = 30


def of_family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def receive(connection, length):
    data = bytearray()
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise EOFError(f"{len(data)} of {length} bytes")
        data += part
    return bytes(data)


def echo_tcp(connection):
    """Length and bytes come, and go back."""
    with connection:
        length, = struct.unpack(">I", receive(connection, 4))
        connection.sendall(receive(connection, length))


def serve(address, folder):
    """HTTP on port 80, echoes on port 7 of TCP and UDP."""
    def accept(server):
        while True:
            connection, _ = server.accept()
            threading.Thread(target=echo_tcp, args=(connection,),
                             daemon=True).start()

    def echo_udp(server):
        while True:
            data, peer = server.recvfrom(65_535)
            # Who asks for it is told by whom it was asked.
            server.sendto(peer[0].encode() if data == b"who" else data, peer)

    family = of_family(address)
    tcp = socket.create_server((address, 7), family=family, backlog=1_000)
    udp = socket.socket(family, socket.SOCK_DGRAM)
    udp.bind((address, 7))
    threading.Thread(target=accept, args=(tcp,), daemon=True).start()
    threading.Thread(target=echo_udp, args=(udp,), daemon=True).start()
    os.chdir(folder)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        address_family = family

    with Server((address, 80), Quiet) as server:
        print("ready", flush=True)
        server.serve_forever()


def get(address, *names):
    """The SHA-256 of each file."""
    host = f"[{address}]" if ":" in address else address
    for name in names:
        with urllib.request.urlopen(f"http://{host}/{name}",
                                    timeout=PATIENCE_S) as answer:
            print(hashlib.sha256(answer.read()).hexdigest())


def tcp(address, count, length):
    """So many connections at one time, an echo of so many bytes by each."""
    data = random.Random(1).randbytes(int(length))
    connections = []
    for _ in range(int(count)):
        connections.append(socket.create_connection((address, 7), PATIENCE_S))

    def talk(connection):
        thread = threading.Thread(target=connection.sendall, args=(
            struct.pack(">I", len(data)) + data,))
        thread.start()
        right.append(receive(connection, len(data)) == data)
        thread.join()

    right = []
    threads = [threading.Thread(target=talk, args=(one,))
               for one in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(right), "right")


def udp(address, *lengths):
    """An echo of so many bytes each, three times if it is lost."""
    with socket.socket(of_family(address), socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        client.connect((address, 7))
        for length in lengths:
            data = random.Random(length).randbytes(int(length))
            for _ in range(3):
                client.send(data)
                try:
                    print(length, "right" if client.recv(65_535) == data
                          else "wrong")
                    break
                except TimeoutError:
                    print(length, "lost")


def who(address):
    """From where a request came to the server."""
    with socket.socket(of_family(address), socket.SOCK_DGRAM) as client:
        client.settimeout(PATIENCE_S)
        client.sendto(b"who", (address, 7))
        print(client.recv(100).decode())


def refused(address):
    """Whether a connection to port 7 comes about within a second."""
    try:
        socket.create_connection((address, 7), 1).close()
        print("connected")
    except OSError:
        print("refused")


def sum_of(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ping(address, count):
    is_v6 = ":" in address
    kind, answer = (128, 129) if is_v6 else (8, 0)
    protocol = socket.IPPROTO_ICMPV6 if is_v6 else socket.IPPROTO_ICMP
    with socket.socket(of_family(address), socket.SOCK_RAW,
                       protocol) as client:
        client.settimeout(PATIENCE_S)
        client.connect((address, 0))
        for number in range(int(count)):
            asked = struct.pack(">HH", os.getpid() & 0xFFFF, number) + b"x" * 56
            checksum = 0 if is_v6 else sum_of(
                struct.pack(">BBH", kind, 0, 0) + asked)
            client.send(struct.pack(">BBH", kind, 0, checksum) + asked)
            while True:
                data = client.recv(65_535)
                data = data if is_v6 else data[(data[0] & 15) * 4:]
                if data[0] == answer and data[4:] == asked:
                    break
            print(number, "answered")


def fetch(url):
    """A page of this host, once there is one."""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        print(answer.read().decode(), end="")


if __name__ == "__main__":
    {word.__name__: word for word in (
        serve, get, tcp, udp, who, refused, ping, fetch,
    )}[sys.argv[1]](*sys.argv[2:])
