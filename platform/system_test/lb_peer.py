# SPDX-License-Identifier: Apache-2.0
"""The hosts of lb_connections_test.py: clients that talk without end, and a UDP
server.

Usage: lb_peer.py udp_server ADDRESS NUMBER
       lb_peer.py talk ADDRESS TCP_CLIENTS UDP_CLIENTS
       lb_peer.py ask ADDRESS CONNECTIONS
"""

import http.client
import json
import os
import socket
import sys
import threading
import time

PORT, SERVER_PORT, FIRST_PORT = 80, 8080, 20_000
PATIENCE_S = 60  # then a connection counts as broken
RESEND_S = 0.3
PAUSE_S = 0.05
# The first octets of QUIC packets with a long header, and with a short one.
LONG, SHORT = b"\xc0\x00\x00\x00\x01", b"\x40"
ID_BYTES = 8


def udp_server(address, number):
    """Answers each packet by its number, the server's address, and the
    connection id that names the server."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, SERVER_PORT))
    own_id = bytes([0, number]) + os.urandom(ID_BYTES - 2)
    print("ready", flush=True)
    while True:
        data, client = server.recvfrom(2_000)
        server.sendto(data[-8:] + own_id + address.encode(), client)


class Client:
    """A conversation that goes on until it breaks."""

    def __init__(self, address, port=0):
        self.address = address
        self.port = port  # its own; 0 for any
        self.answers = 0
        self.servers = []  # in order, each change of server once more
        self.broken = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            self.begin()
            while True:
                server = self.ask()
                if self.servers[-1:] != [server]:
                    self.servers.append(server)
                self.answers += 1
                time.sleep(PAUSE_S)
        except (OSError, http.client.HTTPException) as error:
            self.broken = f"{type(error).__name__}: {error}"


class TcpClient(Client):
    """One connection, on which one request follows the other."""

    def begin(self):
        self.connection = http.client.HTTPConnection(
            self.address, PORT, timeout=PATIENCE_S,
            source_address=("", self.port))
        self.connection.connect()
        self.connection.auto_open = 0

    def ask(self):
        self.connection.request("GET", "/who")
        return self.connection.getresponse().read().decode()


class UdpClient(Client):
    """As QUIC: the server's connection id is in all packets but the first."""

    def begin(self):
        self.header = LONG + bytes([ID_BYTES]) + os.urandom(ID_BYTES)
        self.number = 0
        self.move(self.port)

    def move(self, port=0):
        """Goes on from another port."""
        changed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        changed.bind(("", port))
        changed.settimeout(RESEND_S)
        self.socket = changed

    def ask(self):
        """Sends a packet until its answer comes."""
        self.number += 1
        number = self.number.to_bytes(8, "big")
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            used = self.socket
            used.sendto(self.header + number, (self.address, PORT))
            try:
                answer = used.recv(2_000)
                while answer[:8] != number:
                    answer = used.recv(2_000)
            except (TimeoutError, ConnectionRefusedError):
                continue
            self.header = SHORT + answer[8:8 + ID_BYTES]
            return answer[8 + ID_BYTES:].decode()
        raise TimeoutError(f"no answer within {PATIENCE_S} s")


def talk(address, tcp, udp):
    """Begins so many clients. A line "move" gives each UDP client another port;
    any line is answered by what became of all, as JSON."""
    # The same ports in each run, so that the same servers are chosen.
    clients = [*(TcpClient(address, FIRST_PORT + i) for i in range(tcp)),
               *(UdpClient(address, FIRST_PORT + i) for i in range(udp))]
    for client in clients:
        client.thread.start()
    for line in sys.stdin:
        if line.strip() == "move":
            for client in clients[tcp:]:
                client.move()
        told = [{"answers": client.answers, "servers": client.servers,
                 "broken": client.broken} for client in clients]
        print(json.dumps({"tcp": told[:tcp], "udp": told[tcp:]}), flush=True)


def ask(address, connections):
    """Tells which server each of so many new connections comes to."""
    for _ in range(connections):
        client = TcpClient(address)
        try:
            client.begin()
            print(client.ask(), flush=True)
        except (OSError, http.client.HTTPException) as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        finally:
            client.connection.close()


if __name__ == "__main__":
    words = [int(word) if word.isdigit() else word for word in sys.argv[2:]]
    {"udp_server": udp_server, "talk": talk, "ask": ask}[sys.argv[1]](*words)
