# SPDX-License-Identifier: Apache-2.0
"""A VLAN interface of a host, for kernels that have none: a TAP interface whose
frames leave by eth0 with tags, and to which those come that have these tags.

Usage, in the host's namespace: vlan_card.py NAME TAGS LEAVES

TAGS are in hexadecimal, as 81000064. If LEAVES is 1, checksums and the cutting
of segments are left to eth0's card, as a kernel's VLAN interface does.
"""

import errno
import fcntl
import os
import select
import socket
import struct
import sys

SOL_PACKET, PACKET_AUXDATA, PACKET_VNET_HDR, IGNORE_OUTGOING = 263, 8, 15, 23
SO_RCVBUFFORCE = 33
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x2, 0x1000, 0x4000
CSUM_AND_TSO = 0x1 | 0x2 | 0x4  # of TCP over IPv4 and IPv6
VLAN_VALID = 0x10
OFFLOAD = struct.Struct("=BBHHHH")  # virtio_net_hdr
AUX = struct.Struct("=IIIHHHH")


def moved(offload, by):
    """The offload of a frame whose header has grown by so many bytes."""
    flags, segments, header, size, start, offset = OFFLOAD.unpack(offload)
    return OFFLOAD.pack(flags, segments, header + by if segments else header,
                        size, start + by if flags & 1 else start, offset)


def send(tap, card, tags):
    data = os.read(tap, 70_000)
    offload, frame = data[:OFFLOAD.size], data[OFFLOAD.size:]
    card.send(moved(offload, len(tags)) + frame[:12] + tags + frame[12:])


def receive(tap, card, tags):
    data, beside, *_ = card.recvmsg(70_000, 200)
    offload, frame = data[:OFFLOAD.size], data[OFFLOAD.size:]
    status, *_, tag, tag_type = AUX.unpack(beside[0][2])
    taken_out = b""  # by the kernel
    if status & VLAN_VALID:
        taken_out = struct.pack(">HH", tag_type, tag)
    all_after = taken_out + frame[12:]
    if all_after.startswith(tags):
        os.write(tap, moved(offload, len(taken_out) - len(tags)) + frame[:12] +
                 all_after[len(tags):])


def main(name, tags, leaves):
    tags = bytes.fromhex(tags)
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack(
        "16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(tap, TUNSETOFFLOAD, CSUM_AND_TSO if leaves == "1" else 0)
    card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    for option in (PACKET_AUXDATA, PACKET_VNET_HDR, IGNORE_OUTGOING):
        card.setsockopt(SOL_PACKET, option, 1)
    card.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
    card.bind(("eth0", 3))
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([tap, card], [], [])
        try:
            if tap in readable:
                send(tap, card, tags)
            if card in readable:
                receive(tap, card, tags)
        except OSError as error:
            if error.errno == errno.ENETDOWN:  # eth0 is gone
                return
            if error.errno not in (errno.ENOBUFS, errno.EMSGSIZE):
                raise


if __name__ == "__main__":
    main(*sys.argv[1:])
