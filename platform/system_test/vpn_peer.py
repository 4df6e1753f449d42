# SPDX-License-Identifier: Apache-2.0
"""An end of an ESP tunnel (RFC 4303, RFC 4106), for kernels that have none: a
TUN interface whose packets leave by ESP, and to which those come that ESP
brings. It is written for tests: it has no window, and answers nothing.

Usage, in the host's namespace: vpn_peer.py NAME PEER SPI_IN KEY_IN SPI_OUT
KEY_OUT TWICE [PORT]

Keys are in hexadecimal, with the salt. Every packet whose number TWICE divides
is sent twice. With PORT, ESP is in UDP (RFC 3948).
"""

import ctypes
import fcntl
import os
import select
import socket
import struct
import sys

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
IPV4_IN_IP, UDP_PORT = 4, 4_500
TAG_BYTES, GET_TAG, SET_TAG = 16, 0x10, 0x11


class Gcm:
    """AES-GCM of OpenSSL."""

    def __init__(self, key):
        self.lib = ctypes.CDLL("libcrypto.so.3")
        for name in ("EVP_CIPHER_CTX_new", "EVP_aes_128_gcm",
                     "EVP_aes_256_gcm"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.lib.EVP_CIPHER_CTX_new())
        self.key, self.salt = key[:-4], key[-4:]
        self.cipher = ctypes.c_void_p(
            self.lib.EVP_aes_128_gcm() if len(self.key) == 16 else
            self.lib.EVP_aes_256_gcm())

    def crypt(self, iv, beside, text, seals, tag=b""):
        """The other text, and the tag; no text if the tag is wrong."""
        lib, context, count = self.lib, self.context, ctypes.c_int()
        out = ctypes.create_string_buffer(len(text) + 32)
        lib.EVP_CipherInit_ex(context, self.cipher, None, self.key,
                              self.salt + iv, int(seals))
        lib.EVP_CipherUpdate(context, None, ctypes.byref(count), beside,
                             len(beside))
        lib.EVP_CipherUpdate(context, out, ctypes.byref(count), text, len(text))
        if not seals:
            lib.EVP_CIPHER_CTX_ctrl(context, SET_TAG, TAG_BYTES, tag)
        rest = ctypes.create_string_buffer(32)
        if lib.EVP_CipherFinal_ex(context, rest, ctypes.byref(count)) != 1:
            return None, b""
        given = ctypes.create_string_buffer(TAG_BYTES)
        if seals:
            lib.EVP_CIPHER_CTX_ctrl(context, GET_TAG, TAG_BYTES, given)
        return out.raw[:len(text)], given.raw


class Tunnel:
    def __init__(self, spi_in, key_in, spi_out, key_out):
        self.spi_in, self.spi_out = int(spi_in, 0), int(spi_out, 0)
        self.key_in = Gcm(bytes.fromhex(key_in))
        self.key_out = Gcm(bytes.fromhex(key_out))
        self.number = 0

    def seal(self, packet):
        self.number += 1
        padding = -(len(packet) + 2) % 4
        text = packet + bytes(range(1, padding + 1)) + \
            bytes([padding, IPV4_IN_IP])
        header = struct.pack(">II", self.spi_out, self.number)
        iv = struct.pack(">Q", self.number)
        sealed, tag = self.key_out.crypt(iv, header, text, True)
        return header + iv + sealed + tag

    def open(self, esp):
        if len(esp) < 36 or struct.unpack(">I", esp[:4])[0] != self.spi_in:
            return None
        text, _ = self.key_in.crypt(esp[8:16], esp[:8], esp[16:-TAG_BYTES],
                                    False, esp[-TAG_BYTES:])
        if text is None or text[-1] != IPV4_IN_IP:
            return None
        return text[:-2 - text[-2]]


def main(name, peer, spi_in, key_in, spi_out, key_out, twice, port=None):
    tunnel = Tunnel(spi_in, key_in, spi_out, key_out)
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(),
                                            IFF_TUN | IFF_NO_PI))
    if port:
        card = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        card.bind(("0.0.0.0", UDP_PORT))
    else:
        card = socket.socket(socket.AF_INET, socket.SOCK_RAW, 50)
    card.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([tun, card], [], [])
        if tun in readable:
            packet = os.read(tun, 65_535)
            if packet[0] >> 4 == 4:
                sealed = tunnel.seal(packet)
                times = 1 if tunnel.number % int(twice) else 2
                for _ in range(times):
                    card.sendto(sealed, (peer, UDP_PORT if port else 0))
        if card in readable:
            data = card.recv(65_535)
            esp = data if port else data[data[0] % 16 * 4:]
            packet = tunnel.open(esp)
            if packet:
                os.write(tun, packet)


if __name__ == "__main__":
    main(*sys.argv[1:])
