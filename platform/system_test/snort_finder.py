# SPDX-License-Identifier: Apache-2.0
"""Which flows of a capture rules of Snort match, found without code of SNF.

Joins snort_rules.py and tshark_streams.py. Only the first literal search is
made fast, by sequences of four bytes; the rest is as plain as it can be.
"""

import collections

from snort_rules import Unit, number_of
from tshark_streams import messages_of, packets_of, place_packets, runs_of

GRAM = 4
ALL_ADDRESSES = 1 << 129


class Finder:
    def __init__(self, rules):
        self.rules = rules
        self.by_gram, self.short, self.bare = {}, [], []
        counts = collections.Counter(
            gram for rule in rules for gram in self._grams(rule.literal))
        for rule in rules:
            if not rule.literal:
                self.bare.append(rule)
            elif len(rule.literal) < GRAM:
                self.short.append(rule)
            else:
                rarest = min(self._grams(rule.literal),
                             key=lambda gram: (counts[gram], gram))
                self.by_gram.setdefault(rarest, []).append(rule)

    @staticmethod
    def _grams(text):
        return {text[i:i + GRAM] for i in range(len(text) - GRAM + 1)}

    def _candidates(self, text):
        """The rules whose longest literal a text in lower case has."""
        found = [rule for rule in self.short if rule.literal in text]
        for gram in self._grams(text) & self.by_gram.keys():
            found += [rule for rule in self.by_gram[gram]
                      if rule.literal in text]
        return found

    def alerts(self, capture):
        """The set of (rule id, source, port, destination, port) that must be
        told, and the set of such that may be (Run.is_doubtful)."""
        self.found, self.doubtful = set(), set()
        self.numbers = {}
        packets = list(packets_of(capture))
        place_packets(packets)
        self._index_bare(packets)
        own = {}
        for packet in packets:
            packet["ends"] = tuple(packet[name] for name in
                                   ("source", "port", "target", "to"))
            if "stream" in packet:
                own.setdefault((packet["stream"], packet["source"],
                                packet["port"]), []).append(packet)
            self._find_bare(packet)
            if packet["protocol"] != "tcp" and packet["payload"]:
                self._find_alone(packet)
        for run in runs_of(packets):
            first = run.first
            segments = own[(first["stream"], first["source"], first["port"])]
            self._find_in_run(run, segments)
        return self.found, self.doubtful - self.found

    def _allows(self, rule, packet):
        source, port, target, to = packet["ends"]
        return (rule.protocol in ("ip", packet["protocol"]) and
                rule.matches_flow(packet["to_server"], packet["established"])
                and rule.matches_ends((self._number(source), port,
                                       self._number(target), to)))

    def _number(self, address):
        if address not in self.numbers:
            self.numbers[address] = number_of(address)
        return self.numbers[address]

    def _add(self, rule, packet, is_doubtful=False):
        into = self.doubtful if is_doubtful else self.found
        into.add((rule.id, *packet["ends"]))

    def _unit_of(self, payload):
        return Unit({"payload": payload, "file_data": payload})

    # Rules without a literal.

    def _index_bare(self, packets):
        addresses = sorted({self._number(p[end]) for p in packets
                            for end in ("source", "target")})
        self.by_address = ({}, {})
        self.anywhere, self.of_messages, self.tried = [], [], set()
        for rule in self.bare:
            if rule.needs_http:
                self.of_messages.append(rule)
                continue
            for side, ends in enumerate((rule.source, rule.target)):
                if ends[0][1] < ALL_ADDRESSES and not rule.both_ways:
                    self._index(rule, ends, addresses, self.by_address[side])
                    break
            else:
                self.anywhere.append(rule)

    @staticmethod
    def _index(rule, ends, addresses, index):
        first = 0
        for address in addresses:
            while first < len(ends) and ends[first][1] < address:
                first += 1
            if first == len(ends):
                return
            if ends[first][0] <= address:
                index.setdefault(address, []).append(rule)

    def _find_bare(self, packet):
        sides = (self._number(packet["source"]), self._number(packet["target"]))
        rules = [rule for side, address in enumerate(sides)
                 for rule in self.by_address[side].get(address, ())]
        state = (packet["ends"], packet["to_server"], packet["established"])
        is_new = state not in self.tried
        self.tried.add(state)
        for rule in rules + self.anywhere:
            if not rule.tests and not rule.fields and not is_new:
                continue
            if (rule.matches_packet(packet) and self._allows(rule, packet) and
                    rule.matches_unit(self._unit_of(packet["payload"]))):
                self._add(rule, packet)

    # Rules with a literal.

    def _find_alone(self, packet):
        unit = self._unit_of(packet["payload"])
        for rule in self._candidates(packet["payload"].lower()):
            if (not rule.needs_http and self._allows(rule, packet) and
                    rule.matches_packet(packet) and rule.matches_unit(unit)):
                self._add(rule, packet)

    def _find_in_run(self, run, segments):
        first = run.first
        messages = [Unit(one) for one in messages_of(run, first["to_server"])]
        stream = self._unit_of(bytes(run.bytes))
        if messages:
            stream = Unit({"payload": bytes(run.bytes)})
        text = b"\n".join(unit.everything() for unit in [stream, *messages])
        segments = [one for one in segments if one["payload"]]
        established = dict(first, established=any(one["established"]
                                                  for one in segments))
        rules = self._candidates(text) + (self.of_messages if messages else [])
        for rule in rules:
            whole = [first, established]
            if rule.packet_only or rule.fields and not rule.needs_http:
                whole = []
            if not all(any(test(one.get(name, -1)) for one in segments)
                       for name, test in rule.fields):
                continue
            if any(self._allows(rule, one) for one in whole):
                units = messages
                if not (rule.needs_http or
                        messages and "file_data" in rule.buffers):
                    units = [] if rule.is_anchored and not run.is_whole \
                        else [stream]
                    units = units + (messages if rule.is_anchored else [])
                if any(rule.matches_unit(unit) for unit in units):
                    self._add(rule, first, run.is_doubtful)
                    continue
            if not whole or rule.is_anchored:
                self._find_in_segments(rule, segments, bool(messages),
                                       run.is_doubtful)

    def _find_in_segments(self, rule, segments, is_http, is_doubtful):
        if rule.needs_http or is_http and "file_data" in rule.buffers:
            return
        for packet in segments:
            if (rule.matches_packet(packet) and self._allows(rule, packet) and
                    rule.matches_unit(self._unit_of(packet["payload"]))):
                self._add(rule, packet, is_doubtful)
                return
