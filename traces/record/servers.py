#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The servers of record.sh that are no programs of their own.

HTTP/1.1 on port 80 of each address: GET /N answers N bytes of text, POST reads
its body. UDP on port 7000 answers each datagram (a voice call's other end) and
on port 7001 swallows it. Runs until it is ended.
"""
import asyncio
import http.server
import socket
import socketserver
import sys
import threading

TEXT = b"All work and no play makes a dull network function. " * 40_000


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "snf-record"
    sys_version = ""

    def answer(self, size):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(TEXT[:size])

    def do_GET(self):
        self.answer(min(int(self.path[1:]), len(TEXT)))

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(20)

    def log_message(self, *_):
        pass


class HttpServer(http.server.ThreadingHTTPServer):
    request_queue_size = 256

    def __init__(self, address):
        if ":" in address:
            self.address_family = socket.AF_INET6
        super().__init__((address, 80), Answer)

    def server_bind(self):
        # Not HTTPServer's: it asks the machine's name server for a name.
        socketserver.TCPServer.server_bind(self)


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.transport.sendto(data, addr)


async def serve_udp(address):
    loop = asyncio.get_running_loop()
    sink = asyncio.DatagramProtocol
    await loop.create_datagram_endpoint(Echo, local_addr=(address, 7000))
    await loop.create_datagram_endpoint(sink, local_addr=(address, 7001))
    await asyncio.Event().wait()


def main():
    for address in sys.argv[1:]:
        server = HttpServer(address)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    asyncio.run(serve_udp(sys.argv[1]))


if __name__ == "__main__":
    main()
