# SPDX-License-Identifier: Apache-2.0
"""Packets, TCP streams and HTTP messages of a capture, read by tshark.

tshark parses packets, joins fragments, and numbers streams and their bytes;
these functions put the bytes in order, whole streams at a time.
"""

import re
import subprocess
import zlib

NAMES = ("frame.number", "frame.time_epoch", "ip.src", "ip.dst", "ipv6.src",
         "ipv6.dst", "ip.proto", "ipv6.nxt", "tcp.srcport", "tcp.dstport",
         "udp.srcport", "udp.dstport", "tcp.stream", "tcp.seq", "tcp.flags",
         "tcp.payload", "udp.payload", "data.data", "icmp.type", "icmp.code",
         "icmpv6.type", "icmpv6.code", "ip.ttl", "ip.id",
         "tcp.ack", "tcp.window_size_value", "tcp.seq_raw", "tcp.ack_raw", "icmp.ident",
         "icmp.seq", "frame.len", "frame.cap_len")
PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp"}
IDLE_S = 300
FIN, SYN, RST, ACK = 1, 2, 4, 16


def packets_of(capture):
    """One dict for each packet of IP, in the order of the capture."""
    command = ["tshark", "-n", "-r", str(capture), "-T", "fields",
               "-E", "occurrence=f", "-o", "tcp.desegment_tcp_streams:false"]
    for name in NAMES:
        command += ["-e", name]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    for line in done.stdout.decode().splitlines():
        one = dict(zip(NAMES, line.split("\t")))
        is_ipv4 = one["ip.src"] != ""
        # Of IPv6 in IPv4 both are there; the outer one comes first.
        source = one["ip.src"] or one["ipv6.src"]
        if not source:
            continue
        protocol = PROTOCOLS.get(
            int(one["ip.proto" if is_ipv4 else "ipv6.nxt"] or 0), "ip")

        def number(name):
            return int(one[name], 0) if one[name] else None

        def of(name):
            return bytes.fromhex(one[name])
        packet = {"frame": int(one["frame.number"]),
                  "time": float(one["frame.time_epoch"]),
                  "protocol": protocol, "source": source,
                  "target": one["ip.dst"] or one["ipv6.dst"],
                  "port": 0, "to": 0, "ttl": number("ip.ttl"),
                  "ip_id": number("ip.id")}
        if protocol == "tcp" and one["tcp.seq"]:
            packet.update(
                port=int(one["tcp.srcport"]), to=int(one["tcp.dstport"]),
                stream=int(one["tcp.stream"]), sequence=int(one["tcp.seq"]),
                flags=number("tcp.flags") & 0xFF, payload=of("tcp.payload"),
                acknowledged=number("tcp.ack") or 0,
                window=number("tcp.window_size_value"),
                seq_raw=number("tcp.seq_raw"), ack_raw=number("tcp.ack_raw"))
        elif protocol == "udp" and one["udp.srcport"]:
            packet.update(port=int(one["udp.srcport"]),
                          to=int(one["udp.dstport"]), payload=of("udp.payload"))
        else:
            packet["payload"] = of("data.data")
            if protocol == "icmp":
                v = "icmp" if is_ipv4 else "icmpv6"
                packet.update(icmp_type=number(v + ".type"),
                              icmp_code=number(v + ".code"),
                              icmp_id=number("icmp.ident"),
                              icmp_seq=number("icmp.seq"))
        packet["size"] = len(packet["payload"])
        packet["is_same"] = packet["source"] == packet["target"]
        yield packet


def begins_with_answer(packet):
    if packet["protocol"] != "tcp":
        return False
    if packet.get("flags", 0) & SYN:
        return bool(packet["flags"] & ACK)
    return packet["port"] < 1024 <= packet["to"]


def place_packets(packets):
    """Adds to each packet its direction and whether its flow is established."""
    flows = {}
    for packet in packets:
        ends = (packet["source"], packet["port"])
        others = (packet["target"], packet["to"])
        key = (packet["protocol"], packet.get("stream"),
               *sorted((ends, others)))
        flow = flows.get(key)
        if flow is None or packet["time"] > flow["last"] + IDLE_S:
            client = others if begins_with_answer(packet) else ends
            flow = flows[key] = {"client": client, "established": False}
        flow["last"] = packet["time"]
        packet["to_server"] = ends == flow["client"]
        flags = packet.get("flags")
        if flags is None:
            flow["established"] |= not packet["to_server"]
        else:
            flow["established"] |= bool(flags & ACK and not flags & (SYN | RST))
        packet["established"] = flow["established"]


class Run:
    """Bytes of one direction of a stream, without a hole."""

    def __init__(self, packet, at):
        self.first = packet
        self.begin = at  # 1 if it begins with the stream
        self.bytes = bytearray()
        self.starts = []  # where segments begin
        self.is_whole = False
        # Behind a hole that the other side has never acknowledged.
        self.is_doubtful = False

    def end(self):
        return self.begin + len(self.bytes)


def runs_of(packets):
    """The runs of all TCP streams, from their segments."""
    streams, has_syn, acknowledged = {}, set(), {}
    for packet in packets:
        if packet["protocol"] != "tcp" or "stream" not in packet:
            continue
        key = (packet["stream"], packet["source"], packet["port"])
        if packet["flags"] & SYN:
            has_syn.add(key)
        if packet["flags"] & ACK:
            other = (packet["stream"], packet["target"], packet["to"])
            acknowledged[other] = max(acknowledged.get(other, 0),
                                      packet["acknowledged"])
        if packet["payload"]:
            streams.setdefault(key, []).append(packet)
    for key, segments in streams.items():
        run = None
        # Of equal bytes the first ones count.
        for packet in sorted(segments,
                             key=lambda p: (p["sequence"], p["frame"])):
            at, payload = packet["sequence"], packet["payload"]
            if run is None or at > run.end():
                is_behind_hole = run is not None
                if is_behind_hole:
                    yield run
                run = Run(packet, at)
                run.is_doubtful = (is_behind_hole and
                                   acknowledged.get(key, 0) < at)
                run.is_whole = key in has_syn and at == 1
            new = payload[max(0, run.end() - at):]
            if new:
                run.starts.append(len(run.bytes))
                run.bytes += new
        yield run


def normal_uri(raw):
    """Decodes percent signs once; \\ is /, and //, /./ and /x/../ are short."""
    text = re.sub(rb"%(?:u..)?([0-9a-fA-F]{2})",
                  lambda m: bytes([int(m.group(1), 16)]), raw)
    path, mark, query = text.partition(b"?")
    path = path.replace(b"\\", b"/")
    scheme = re.match(rb"[a-zA-Z]{1,6}://", path)
    head = scheme.group(0) if scheme else b""
    path = re.sub(rb"/+", b"/", path[len(head):])
    parts = []
    words = path.split(b"/")
    for i, part in enumerate(words):
        is_inner = i < len(words) - 1
        if part == b"." and is_inner and parts:
            continue
        if part == b".." and is_inner and parts:
            if len(parts) > 1:
                parts.pop()
            continue
        parts.append(part)
    return head + b"/".join(parts) + mark + query


def unpacked(body, coding):
    if b"gzip" in coding:
        window = 31
    elif b"deflate" in coding:
        window = 15 if body[:1] and body[0] & 15 == 8 else -15
    else:
        return body
    machine = zlib.decompressobj(window)
    found = b""
    try:
        for i in range(0, len(body), 64):
            found += machine.decompress(body[i:i + 64])
    except zlib.error:
        pass
    return found


def unchunked(data):
    """The body, and how many bytes its chunks take, None if it has no end."""
    body, at = b"", 0
    while True:
        found = re.compile(rb"([0-9a-fA-F]{1,8})[^\n]*\n").match(data, at)
        if found is None:
            return body, None
        size = int(found.group(1), 16)
        at = found.end()
        if size == 0:
            end = re.compile(rb"(?:[^\r\n][^\n]*\n)*\r?\n").match(data, at)
            return body, end.end() if end else None
        body += data[at:at + size]
        at += size
        at += 2 if data[at:at + 2] == b"\r\n" else 1 if data[at:at + 1] == \
            b"\n" else 0


REQUEST = re.compile(rb"[A-Z]+ [^\n]* HTTP/1\.[^\n]*\n")
FIRST_REQUEST = re.compile(rb"[A-Za-z]+ [^\n]* HTTP/[^\n]*\n")
ANSWER = re.compile(rb"HTTP/1\.[^\n]*\n")


def message_at(data, at, is_request, max_body):
    """The buffers of the message at a place, and where it ends; or None."""
    end = re.compile(rb"\r?\n\r?\n").search(data, at)
    if end is None:
        return None
    first, _, raw = data[at:end.end()].partition(b"\n")
    first = first.rstrip(b"\r")
    header, cookies, fields = b"", [], {}
    for line in raw.splitlines(keepends=True):
        name, _, value = line.partition(b":")
        name = name.lower()
        if name == (b"cookie" if is_request else b"set-cookie"):
            cookies.append(value.strip())
            continue
        header += line
        fields[name] = value.strip()
    buffers = {"http_header": header, "http_raw_header": raw}
    if any(cookies):
        buffers["http_cookie"] = b", ".join(cookies)
        buffers["http_raw_cookie"] = buffers["http_cookie"]
    length = fields.get(b"content-length", b"")
    length = int(length) if length.isdigit() else None
    is_chunked = b"chunked" in fields.get(b"transfer-encoding", b"").lower()
    if is_request:
        buffers["http_method"], _, rest = first.partition(b" ")
        buffers["http_raw_uri"] = rest.rpartition(b" ")[0]
        buffers["http_uri"] = normal_uri(buffers["http_raw_uri"])
        if length is None and not is_chunked:
            length = 0
    else:
        words = first.split(b" ", 2)
        buffers["http_stat_code"] = words[1]
        if len(words) > 2:
            buffers["http_stat_msg"] = words[2]
        if words[1][:1] == b"1" or words[1] in (b"204", b"304"):
            length, is_chunked = 0, False
    body_at = end.end()
    if is_chunked:
        body, size = unchunked(data[body_at:])
        stop = len(data) if size is None else body_at + size
    else:
        stop = len(data) if length is None else min(len(data), body_at + length)
        body = data[body_at:stop]
    coding = fields.get(b"content-encoding", b"").lower()
    buffers["http_client_body" if is_request else "file_data"] = (
        unpacked(body, coding)[:max_body])
    buffers["payload"] = data[at:stop]
    return buffers, stop


def messages_of(run, is_request, max_body=1 << 20):
    """The HTTP messages of a run: buffers by name, as Snort names them."""
    data = bytes(run.bytes)
    begins = REQUEST if is_request else ANSWER
    starts = iter(run.starts)
    at, found = 0, []
    while at < len(data):
        # In the midst of a stream, only a segment's begin is one of a message.
        which = FIRST_REQUEST if is_request and run.is_whole and at == 0 \
            else begins
        message = (message_at(data, at, is_request, max_body)
                   if which.match(data, at) else None)
        if message is None:
            at = next((s for s in starts if s > at), len(data))
            continue
        buffers, stop = message
        found.append(buffers)
        at = stop
    return found
