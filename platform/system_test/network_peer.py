# SPDX-License-Identifier: Apache-2.0
"""The hosts of run_test.py: a script that it runs in network namespaces.

Usage: network_peer.py WORD [ARGUMENT…]
"""

import contextlib
import array
import fcntl
import hashlib
import json
import os
import random
import select
import socket
import struct
import sys
import threading
import time

# Modules that take longer to load than most words take are loaded where they
# are used.

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
    """Length and bytes come, and go back, as often as the other end likes."""
    with connection, contextlib.suppress(ConnectionError):
        while first := connection.recv(1):
            length, = struct.unpack(">I", first + receive(connection, 3))
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
            if data == b"who":
                data = peer[0].encode()
            elif data == b"where":
                data = f"{peer[0]} {peer[1]}".encode()
            server.sendto(data, peer)

    import http.server
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
    import urllib.request
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


class Talker:
    """Echoes by connections that stay and by others that do not, loud and
    silent by turns, until stdin ends."""

    LOUD_S, SILENT_S = 3, 2

    def __init__(self, address, seed):
        self.address, self.seed = address, int(seed)
        self.ends = threading.Event()
        self.begin = time.monotonic()
        self.lock = threading.Lock()
        self.told = {"echoes": 0, "short": 0, "wrong": 0, "worst_ms": 0}
        self.errors = []

    def echo(self, connection, data):
        begin = time.monotonic()
        thread = threading.Thread(target=connection.sendall, args=(
            struct.pack(">I", len(data)) + data,))
        thread.start()
        is_right = receive(connection, len(data)) == data
        thread.join()
        took = round(1000 * (time.monotonic() - begin))
        with self.lock:
            self.told["echoes" if is_right else "wrong"] += 1
            self.told["worst_ms"] = max(self.told["worst_ms"], took)

    def pause(self, rng):
        """Few talk while most are silent."""
        at = (time.monotonic() - self.begin) % (self.LOUD_S + self.SILENT_S)
        is_loud = at < self.LOUD_S
        self.ends.wait(rng.uniform(0, 0.2 if is_loud else 4))

    def stay(self, number):
        rng = random.Random(self.seed + number)
        with socket.create_connection((self.address, 7),
                                      PATIENCE_S) as connection:
            while not self.ends.is_set():
                self.echo(connection, rng.randbytes(rng.randrange(1, 40_000)))
                self.pause(rng)

    def come_and_go(self, number):
        rng = random.Random(self.seed + number)
        while not self.ends.is_set():
            with socket.create_connection((self.address, 7),
                                          PATIENCE_S) as connection:
                self.echo(connection, rng.randbytes(rng.randrange(1, 5_000)))
            with self.lock:
                self.told["short"] += 1
            self.pause(rng)

    def run(self, talk, number):
        try:
            talk(number)
        except Exception as error:  # pylint: disable=broad-except
            at = time.monotonic() - self.begin
            self.errors.append(f"{talk.__name__} {number} after {at:.1f} s: "
                               f"{error!r}")
            self.ends.set()


def soak(address, count, seed, some_come="yes"):
    talker = Talker(address, seed)
    threads = [threading.Thread(target=talker.run, args=(
        talker.stay if i % 4 or some_come == "no" else talker.come_and_go, i))
               for i in range(int(count))]
    for thread in threads:
        thread.start()

    def listen():
        sys.stdin.read()
        talker.ends.set()
    threading.Thread(target=listen, daemon=True).start()
    for thread in threads:
        thread.join()
    print(json.dumps(talker.told), flush=True)
    if talker.errors:
        sys.exit("; ".join(talker.errors))


def rest(address):
    """A connection with an echo, then silence until stdin ends, and another."""
    with socket.create_connection((address, 7), PATIENCE_S) as connection:
        for is_last in (False, True):
            connection.sendall(struct.pack(">I", 4) + b"echo")
            print(receive(connection, 4) == b"echo", flush=True)
            if not is_last:
                sys.stdin.read()


class Prober:
    """Numbered datagrams to an echo, by so many flows, every 25 ms by each;
    notes when answers did not come for a while, which never came, and which
    flows have none at the end."""

    PERIOD_S, GAP_S, LOST_AFTER_S, MOST = 0.025, 0.2, 10, 100_000

    def __init__(self, address, count):
        self.sockets = []
        for _ in range(count):
            flow = socket.socket(of_family(address), socket.SOCK_DGRAM)
            flow.setblocking(False)
            flow.connect((address, 7))
            self.sockets.append(flow)
        self.number = 0
        self.answered = 0
        self.waiting = {}  # of each number, when it was sent
        self.heard = [time.monotonic()] * count
        self.told = {"gaps": [], "lost": []}

    def receive(self):
        for flow, one in enumerate(self.sockets):
            with contextlib.suppress(BlockingIOError, ConnectionError):
                while data := one.recv(64):
                    self.note(flow, struct.unpack(">Q", data)[0])

    def note(self, flow, number):
        now = time.monotonic()
        self.answered += self.waiting.pop(number, None) is not None
        self.close_gap(flow, now)
        self.heard[flow] = now

    def close_gap(self, flow, now):
        gap = now - self.heard[flow]
        if gap > self.GAP_S and len(self.told["gaps"]) < self.MOST:
            self.told["gaps"].append([flow, now - gap, now])

    def send(self):
        now = time.monotonic()
        for one in self.sockets:
            self.number += 1
            self.waiting[self.number] = now
            with contextlib.suppress(BlockingIOError, ConnectionError):
                one.send(struct.pack(">Q", self.number))
        self.expire(now - self.LOST_AFTER_S)

    def expire(self, sent_before):
        while self.waiting:
            number, sent = next(iter(self.waiting.items()))
            if sent > sent_before:
                return
            del self.waiting[number]
            if len(self.told["lost"]) < self.MOST:
                self.told["lost"].append(sent)

    def talk(self, until):
        due = time.monotonic()
        while not until():
            self.receive()
            if time.monotonic() >= due:
                self.send()
                due += self.PERIOD_S
            select.select(self.sockets, [], [],
                          max(0, due - time.monotonic()))

    def run(self, ends):
        self.talk(ends.is_set)
        last = time.monotonic()

        def silent():
            return [flow for flow, heard in enumerate(self.heard)
                    if heard < last]

        # Each flow answers once more, or is in a gap that does not end.
        self.talk(lambda: not silent()
                  or time.monotonic() > last + PATIENCE_S)
        self.told["silent"] = silent()
        for flow in self.told["silent"]:
            self.close_gap(flow, time.monotonic())
        end = time.monotonic() + 1
        while self.waiting and time.monotonic() < end:
            self.receive()
        self.expire(time.monotonic())
        return self.told | {"sent": self.number, "answered": self.answered}


def probe(address, count):
    """Datagrams until stdin ends: prints what Prober noted."""
    ends = threading.Event()

    def listen():
        sys.stdin.read()
        ends.set()
    threading.Thread(target=listen, daemon=True).start()
    print(json.dumps(Prober(address, int(count)).run(ends)), flush=True)


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


def send_numbers(address):
    """Numbered datagrams to port 9, 2,000 a second, by eight sources that one
    after the other become others, until stdin ends: prints how many."""
    ends = threading.Event()

    def listen():
        sys.stdin.read()
        ends.set()
    threading.Thread(target=listen, daemon=True).start()
    sources, sent = [], 0
    while not ends.wait(0.01):
        if sent % 100 == 0:
            source = socket.socket(of_family(address), socket.SOCK_DGRAM)
            source.connect((address, 9))
            sources = [*sources[-7:], source]
        for _ in range(20):
            sources[sent % len(sources)].send(struct.pack(">Q", sent) * 20)
            sent += 1
    print(sent)


def receive_numbers(address):
    """How often each of them came, once stdin tells how many there were."""
    with socket.socket(of_family(address), socket.SOCK_DGRAM) as server:
        so_rcvbufforce = 33
        server.setsockopt(socket.SOL_SOCKET, so_rcvbufforce, 1 << 26)
        server.bind((address, 9))
        server.settimeout(0.5)
        came, told = [], []
        threading.Thread(target=lambda: told.append(int(sys.stdin.read())),
                         daemon=True).start()
        print("ready", flush=True)
        last = time.monotonic()
        while not told or (len(came) < told[0]
                           and time.monotonic() - last < 5):
            with contextlib.suppress(TimeoutError):
                came.append(struct.unpack(">Q", server.recv(65_535)[:8])[0])
                last = time.monotonic()
    sent, once = told[0], set(came)
    missing = sorted(set(range(sent)) - once)
    print(json.dumps({"sent": sent, "missing": len(missing),
                      "first missing": missing[:5],
                      "repeated": len(came) - len(once)}))


def who(address):
    """From where a request came to the server."""
    with socket.socket(of_family(address), socket.SOCK_DGRAM) as client:
        client.settimeout(PATIENCE_S)
        client.sendto(b"who", (address, 7))
        print(client.recv(100).decode())


def hairpin(address):
    """Whether a datagram comes to whom the server at `address` sees it from."""
    with socket.socket(of_family(address), socket.SOCK_DGRAM) as receiver, \
            socket.socket(of_family(address), socket.SOCK_DGRAM) as sender:
        receiver.settimeout(PATIENCE_S)
        receiver.sendto(b"where", (address, 7))
        host, port = receiver.recv(100).decode().split()
        sender.sendto(b"to a neighbour", (host, int(port)))
        data, peer = receiver.recvfrom(100)
        print(data.decode(), "from", peer[0])


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


def ping(address, count, identifier=None):
    """Echo requests, by default with the identifier of this process."""
    identifier = int(identifier or os.getpid() & 0xFFFF)
    is_v6 = ":" in address
    kind, answer = (128, 129) if is_v6 else (8, 0)
    protocol = socket.IPPROTO_ICMPV6 if is_v6 else socket.IPPROTO_ICMP
    with socket.socket(of_family(address), socket.SOCK_RAW,
                       protocol) as client:
        client.settimeout(PATIENCE_S)
        client.connect((address, 0))
        for number in range(int(count)):
            asked = struct.pack(">HH", identifier, number) + b"x" * 56
            checksum = 0 if is_v6 else sum_of(
                struct.pack(">BBH", kind, 0, 0) + asked)
            client.send(struct.pack(">BBH", kind, 0, checksum) + asked)
            while True:
                data = client.recv(65_535)
                data = data if is_v6 else data[(data[0] & 15) * 4:]
                if data[0] == answer and data[4:] == asked:
                    break
            print(number, "answered")


def send_frame(digits):
    """A frame of so many bytes in hexadecimal, by eth0."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as card:
        card.bind(("eth0", 0))
        card.send(bytes.fromhex(digits))


def receive_frame(ether_type):
    """The first frame of this type: its VLAN tag, and its bytes."""
    packet_auxdata = 8
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                       socket.htons(3)) as card:
        card.bind(("eth0", 3))
        card.setsockopt(263, packet_auxdata, 1)
        card.settimeout(PATIENCE_S)
        print("ready", flush=True)
        while True:
            data, beside, *_ = card.recvmsg(65_535, 100)
            if data[12:14].hex() != ether_type:
                continue
            *_, tag, tag_type = struct.unpack("=IIIHHHH", beside[0][2])
            print(f"{tag_type:04x}{tag:04x}", data.hex())
            return


def dhcp(interface):
    """Gets a lease as a host without an address does; prints the address."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                       socket.htons(0x0800)) as card:
        card.bind((interface, 0x0800))
        card.settimeout(PATIENCE_S)
        mac = card.getsockname()[4]
        offer = ask_dhcp(card, mac, 1, b"")
        leased = offer[16:20]
        ack = ask_dhcp(card, mac, 3, b"\x32\x04" + leased + b"\x36\x04" +
                       option_of(offer, 54))
        if option_of(ack, 53) == b"\x05" and ack[16:20] == leased:
            print(socket.inet_ntoa(leased))


def ask_dhcp(card, mac, kind, options):
    """The answer to a broadcast message of this kind (RFC 2131)."""
    message = struct.pack(">4sI20x6s202x4s3B", b"\1\1\6\0", 7, mac,
                          b"\x63\x82\x53\x63", 53, 1, kind) + options + b"\xff"
    udp = struct.pack(">4H", 68, 67, 8 + len(message), 0) + message
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                     bytes(4), b"\xff" * 4)
    ip = ip[:10] + struct.pack(">H", sum_of(ip)) + ip[12:]
    card.send(b"\xff" * 6 + mac + b"\x08\x00" + ip + udp)
    while True:
        answer = card.recv(65_535)
        if answer[:6] == mac and answer[34:38] == b"\x00\x43\x00\x44":
            return answer[42:]


def option_of(message, code):
    at = 240
    while message[at] != code:
        at += 2 + message[at + 1]
    return message[at + 2:at + 2 + message[at + 1]]


def gro(interface, *value):
    """Sets whether the interface merges packets, if told to; prints it."""
    print(setting(interface, 0x2B, 0x2C, *value))


def finish_checksums(interface):
    """The host computes checksums itself, and sends single packets."""
    for get, put in ((0x16, 0x17), (0x1E, 0x1F), (0x23, 0x24)):
        print(setting(interface, get, put, 0))


def tap(name):
    """Makes a TAP interface, and leaves it as a virtual machine would, with
    headers of 12 bytes."""
    set_interface, persist, header_size = 0x400454CA, 0x400454CB, 0x400454D8
    made = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(made, set_interface,  # TAP, without a header but virtio's
                struct.pack("16sH22x", name.encode(), 0x2 | 0x1000 | 0x4000))
    fcntl.ioctl(made, header_size, struct.pack("i", 12))
    fcntl.ioctl(made, persist, 1)
    os.close(made)


def leaves_checksums(interface):
    """Whether the host leaves checksums of what it sends to the interface."""
    print(setting(interface, 0x16, 0x17))


def setting(interface, get, put, *value):
    """By ethtool's numbers."""
    siocethtool = 0x8946
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in [put, get] if value else [get]:
            asked = array.array("I", [command, *map(int, value or [0])])
            request = struct.pack("16sP16x", interface.encode(),
                                  asked.buffer_info()[0])
            fcntl.ioctl(any_socket, siocethtool, request)
    return asked[1]


def fetch(url):
    """A page of this host, once there is one."""
    import urllib.request
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        print(answer.read().decode(), end="")


def status(url):
    """The status of a page of this host, then the page."""
    import urllib.error
    import urllib.request
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            print(answer.status, answer.read().decode(), sep="\n", end="")
    except urllib.error.HTTPError as answer:
        print(answer.code, answer.read().decode(), sep="\n", end="")
    except urllib.error.URLError as error:
        print(f"no answer: {error.reason}")


if __name__ == "__main__":
    {word.__name__: word for word in (
        serve, get, tcp, soak, rest, probe, udp, send_numbers, receive_numbers,
        who, hairpin, refused, ping, send_frame, receive_frame, gro,
        finish_checksums, fetch, status, dhcp, tap, leaves_checksums,
    )}[sys.argv[1]](*sys.argv[2:])
