# SPDX-License-Identifier: Apache-2.0
"""Rules of Snort 2.9, read and matched without any code of SNF.

The second opinion for tests of the NF `ids`: slow, over whole streams and
messages. A rule that it cannot judge raises Unread with the reason.
"""

import bisect
import ipaddress
import itertools
import re
import warnings

IPV6 = 1 << 128
ANY = [(0, 2 * IPV6)]
PORTS = [(0, 65535)]
HTTP_OPTIONS = ("http_uri", "http_raw_uri", "http_header", "http_raw_header",
                "http_method", "http_cookie", "http_raw_cookie",
                "http_client_body", "http_stat_code", "http_stat_msg")
REGEX_BUFFERS = {"U": "http_uri", "I": "http_raw_uri", "H": "http_header",
                 "D": "http_raw_header", "M": "http_method",
                 "C": "http_cookie", "K": "http_raw_cookie",
                 "P": "http_client_body", "S": "http_stat_code",
                 "Y": "http_stat_msg", "B": "payload"}
# Options without an effect on what matches.
SILENT = ("msg", "sid", "rev", "gid", "classtype", "priority", "reference",
          "metadata", "threshold", "rawbytes")
RULE = re.compile(r"\s*#?\s*(alert|drop|reject)\s+(\w+)\s+(\S+)\s+(\S+)\s+"
                  r"(->|<>)\s+(\S+)\s+(\S+)\s*\((.*)\)\s*$", re.S)


class Unread(Exception):
    """Why a rule is not judged."""


def minus(intervals, holes):
    for low, high in holes:
        rest = []
        for first, last in intervals:
            if first < low:
                rest.append((first, min(last, low - 1)))
            if last > high:
                rest.append((max(first, high + 1), last))
        intervals = [(a, b) for a, b in rest if a <= b]
    return intervals


def merged(intervals):
    found = []
    for low, high in sorted(intervals):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def has(intervals, number):
    at = bisect.bisect_right(intervals, (number, 4 * IPV6)) - 1
    return at >= 0 and intervals[at][0] <= number <= intervals[at][1]


def number_of(address):
    value = ipaddress.ip_address(address)
    return int(value) + (IPV6 if value.version == 6 else 0)


def one_address(text):
    net = ipaddress.ip_network(text, strict=False)
    base = IPV6 if net.version == 6 else 0
    return (base + int(net[0]), base + int(net[-1]))


def one_port(text):
    low, colon, high = text.partition(":")
    return (int(low or 0), int(high or 65535) if colon else int(low))


def parts_of(text):
    depth, part = 0, ""
    for c in text:
        depth += (c == "[") - (c == "]")
        if c == "," and depth == 0:
            yield part
            part = ""
        else:
            part += c
    yield part


class Sets:
    """Lists of addresses and ports, by variables."""

    def __init__(self, variables):
        self.variables = variables
        self.known = {}

    def read(self, text, everything, one):
        key = (text, one)
        if key not in self.known:
            self.known[key] = merged(self._read(text, everything, one))
        if not self.known[key]:
            raise Unread("a list that is empty")
        return self.known[key]

    def _read(self, text, everything, one):
        if text.startswith("!"):
            return minus(everything, self._read(text[1:], everything, one))
        if text == "any":
            return everything
        if text.startswith("$"):
            if text[1:] not in self.variables:
                raise Unread("a variable without a value")
            return self._read(self.variables[text[1:]], everything, one)
        if not text.startswith("["):
            return [one(text)]
        yes, no = [], []
        for part in parts_of(text[1:-1]):
            if part.startswith("!"):
                no += self._read(part[1:], everything, one)
            else:
                yes += self._read(part, everything, one)
        return minus(yes or everything, no)


def options_of(body):
    """Divides "name:value; …" at semicolons that are not escaped."""
    for text in re.split(r"(?<!\\);", body):
        name, _, value = text.partition(":")
        if name.strip():
            yield name.strip(), value.strip()


def content_bytes(text):
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        raise Unread("a content without quotes")
    found = b""
    for i, part in enumerate(re.split(r"(?<!\\)\|", text[1:-1])):
        if i % 2 == 1:
            found += bytes.fromhex(part)
        else:
            found += re.sub(r"\\(.)", r"\1", part).encode("latin-1")
    if not found:
        raise Unread("a content without bytes")
    return found


class Content:
    def __init__(self, value, buffer):
        self.negated = value.startswith("!")
        self.bytes = content_bytes(value[self.negated:].strip())
        self.buffer = buffer
        self.nocase = False
        self.begin = self.span = None
        self.is_relative = False

    def matches(self, unit, cursors):
        """The cursors behind each place where the content is."""
        text = unit.text(self.buffer, self.nocase)
        if text is None:
            return
        base = cursors.get(self.buffer, 0) if self.is_relative else 0
        begin = base + (self.begin or 0)
        end = len(text) if self.span is None else begin + self.span
        needle = self.bytes.lower() if self.nocase else self.bytes
        at = max(begin, 0)
        end = min(end, len(text))
        while True:
            at = text.find(needle, at, max(end, 0))
            if at < 0:
                return
            yield at + len(needle)
            at += 1


class Expression:
    def __init__(self, value, buffer):
        self.negated = value.startswith("!")
        text = value[self.negated:].strip().strip('"')
        mark = text[0]
        if mark == "m":
            text, mark = text[1:], text[1]
        end = text.rindex(mark)
        body, letters = text[1:end], text[end + 1:]
        if re.search(r"\[:|\{,|\\Z|\\z|\\G|\\K|\\h|\\R", body):
            raise Unread("a pcre that re has not")
        flags = 0
        self.buffer = buffer
        self.is_relative = self.is_at_begin = False
        for letter in letters:
            if letter in "ismx":
                flags |= getattr(re, letter.upper())
            elif letter in REGEX_BUFFERS:
                self.buffer = REGEX_BUFFERS[letter]
            elif letter == "R":
                self.is_relative = True
            elif letter == "A":
                self.is_at_begin = True
            elif letter != "O":
                raise Unread(f"pcre with {letter}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.regex = re.compile(body.encode("latin-1"), flags)
        except (re.error, OverflowError) as error:
            raise Unread("a pcre that re has not") from error

    def matches(self, unit, cursors):
        text = unit.text(self.buffer, False)
        if text is None:
            return
        base = cursors.get(self.buffer, 0) if self.is_relative else 0
        text = text[min(base, len(text)):]
        find = self.regex.match if self.is_at_begin else self.regex.search
        at = 0
        while at <= len(text):
            found = find(text, at)
            if found is None:
                return
            yield base + found.end()
            at = found.start() + 1
            if self.is_at_begin:
                return


class Number:
    """byte_test, byte_jump."""

    def __init__(self, kind, value, buffer):
        words = [word.strip() for word in value.split(",")]
        self.kind, self.buffer = kind, buffer
        try:
            self.bytes = int(words.pop(0))
            if kind == "byte_test":
                self.operator = words.pop(0)
                self.value = int(words.pop(0), 0)
            self.offset = int(words.pop(0))
        except (ValueError, IndexError) as error:
            raise Unread(f"{kind} with a variable") from error
        self.is_relative = "relative" in words
        self.order = "little" if "little" in words else "big"
        self.base = 0
        if "string" in words:
            self.base = (16 if "hex" in words else 8 if "oct" in words else 10)
        self.aligns = "align" in words
        self.from_beginning = "from_beginning" in words
        self.factor, self.more = 1, 0
        for word in words:
            name, _, number = word.partition(" ")
            if name == "multiplier":
                self.factor = int(number)
            elif name == "post_offset":
                self.more = int(number)
            elif name not in ("relative", "little", "big", "string", "hex",
                              "dec", "oct", "align", "from_beginning", ""):
                raise Unread(f"{kind} with {name}")

    def apply(self, unit, cursors, last):
        """Whether the test holds; moves the cursor of a jump."""
        buffer = last if self.is_relative else self.buffer
        text = unit.text(buffer, False)
        if text is None:
            return False
        at = (cursors.get(buffer, 0) if self.is_relative else 0) + self.offset
        if at < 0 or at + self.bytes > len(text):
            return False
        raw = text[at:at + self.bytes]
        if self.base == 0:
            read = int.from_bytes(raw, self.order)
        else:
            digits = {8: rb"[0-7]+", 10: rb"[0-9]+",
                      16: rb"(?:0[xX])?[0-9a-fA-F]+"}[self.base]
            found = re.match(rb"\s*(" + digits + rb")", raw)
            if found is None:
                return False
            read = int(found.group(1), self.base)
        if self.kind == "byte_test":
            operator = self.operator.lstrip("!")
            holds = {"<": read < self.value, ">": read > self.value,
                     "=": read == self.value, "<=": read <= self.value,
                     ">=": read >= self.value, "&": read & self.value != 0,
                     "^": read ^ self.value != 0, "": read == self.value}
            return holds[operator] != self.operator.startswith("!")
        step = read * self.factor
        if self.aligns:
            step += -step % 4
        to = (0 if self.from_beginning else at + self.bytes) + step + self.more
        if not 0 <= to <= len(text):
            return False
        cursors[buffer] = to
        return True


class DataAt:
    def __init__(self, value, buffer):
        words = [word.strip() for word in value.split(",")]
        self.negated = words[0].startswith("!")
        try:
            self.offset = int(words[0].lstrip("!"))
        except ValueError as error:
            raise Unread("isdataat with a variable") from error
        self.is_relative = "relative" in words
        self.buffer = buffer

    def apply(self, unit, cursors, last):
        buffer = last if self.is_relative else self.buffer
        text = unit.text(buffer, False) or b""
        base = cursors.get(buffer, 0) if self.is_relative else 0
        return (0 <= base + self.offset < len(text)) != self.negated


class UseBuffer:
    def __init__(self, buffer):
        self.buffer = buffer


def range_of(value):
    """What dsize, itype and the like ask for: a function of a number."""
    text = value.replace(" ", "").split(",")[0]
    found = re.fullmatch(r"(\d*)(<>|<=|>=|<|>|=|!)?(\d*)", text)
    if found is None or not found.group(3) and not found.group(1):
        raise Unread("a range that is not known")
    low, operator, high = found.groups()
    if operator == "<>":
        return lambda n: int(low) <= n <= int(high)
    number = int(high or low)
    return {None: lambda n: n == number, "=": lambda n: n == number,
            "<": lambda n: n < number, ">": lambda n: n > number,
            "<=": lambda n: n <= number, ">=": lambda n: n >= number,
            "!": lambda n: n != number}[operator]


def flags_of(value):
    """What flags asks for: a function of the flags of TCP."""
    text, _, ignored = value.replace(" ", "").partition(",")
    names = "FSRPAU21"

    def bits(letters):
        letters = letters.replace("C", "1").replace("E", "2").replace("0", "")
        return sum(1 << names.index(letter) for letter in letters)
    mode = re.sub(r"[A-Z0-9]", "", text)
    wanted = bits(re.sub(r"[^A-Z0-9]", "", text))
    mask = 0xFF & ~bits(ignored)
    return {"": lambda f: f & mask == wanted,
            "+": lambda f: f & mask & wanted == wanted,
            "*": lambda f: f & mask & wanted != 0,
            "!": lambda f: f & mask & wanted == 0}[mode]


FIELDS = {"dsize": "size", "itype": "icmp_type", "icode": "icmp_code",
          "ttl": "ttl", "id": "ip_id", "window": "window", "seq": "seq_raw",
          "ack": "ack_raw", "icmp_id": "icmp_id", "icmp_seq": "icmp_seq"}


class Rule:
    """One rule, from its line."""

    def __init__(self, line, sets):
        found = RULE.match(re.sub(r",\s+(?=[^()]*\()", ",", line, count=0)
                           if "(" in line else line)
        if found is None:
            raise Unread("no rule")
        (self.action, self.protocol, source, ports, arrow, target, to,
         body) = found.groups()
        if self.protocol not in ("ip", "tcp", "udp", "icmp"):
            raise Unread("a protocol that is not known")
        self.options = list(options_of(body))
        named = dict(self.options)
        self.sid = int(named.get("sid", 0))
        self.id = (int(named.get("gid", 1)), self.sid)
        self.both_ways = arrow == "<>"
        self.source = sets.read(source, ANY, one_address)
        self.target = sets.read(target, ANY, one_address)
        self.source_ports = self.target_ports = PORTS
        if self.protocol in ("tcp", "udp"):
            self.source_ports = sets.read(ports, PORTS, one_port)
            self.target_ports = sets.read(to, PORTS, one_port)
        self.tests, self.fields, self.uri_sizes = [], [], []
        self.flow, self.buffer = [], "payload"
        self.last = None
        for name, value in self.options:
            self._read(name, value)
        self._finish()

    def _read(self, name, value):
        if name in SILENT or name == "fast_pattern":
            return
        if name in ("content", "uricontent"):
            self.last = Content(value, "http_uri" if name == "uricontent"
                                else self.buffer)
            self.tests.append(self.last)
        elif name == "nocase":
            self.last.nocase = True
        elif name in ("offset", "depth", "distance", "within"):
            try:
                number = int(value)
            except ValueError as error:
                raise Unread(f"{name} with a variable") from error
            which = "begin" if name in ("offset", "distance") else "span"
            setattr(self.last, which, number)
            self.last.is_relative |= name in ("distance", "within")
        elif name in HTTP_OPTIONS:
            self.last.buffer = name
        elif name == "pcre":
            self.tests.append(Expression(value, self.buffer))
        elif name in ("byte_test", "byte_jump"):
            self.tests.append(Number(name, value, self.buffer))
        elif name == "isdataat":
            self.tests.append(DataAt(value, self.buffer))
        elif name in ("file_data", "pkt_data"):
            self.buffer = "file_data" if name == "file_data" else "payload"
            self.tests.append(UseBuffer(self.buffer))
        elif name == "flow":
            self.flow = [word.strip() for word in value.split(",")]
        elif name == "flowbits":
            if re.match(r"(is|noalert|reset)", value.strip()):
                raise Unread("flowbits that ask, or that keep alerts back")
        elif name == "urilen":
            kind = ("http_raw_uri" if value.replace(" ", "").endswith(",raw")
                    else "http_uri")
            self.uri_sizes.append((kind, range_of(value)))
        elif name == "flags":
            self.fields.append(("flags", flags_of(value)))
        elif name in FIELDS:
            self.fields.append((FIELDS[name], range_of(value)))
        elif name == "sameip":
            self.fields.append(("is_same", lambda same: same))
        else:
            raise Unread(f"the option {name}")

    def _finish(self):
        self.buffers = {test.buffer for test in self.tests
                        if not getattr(test, "is_relative", False) or
                        isinstance(test, (Content, Expression))}
        self.buffers |= {kind for kind, _ in self.uri_sizes}
        self.needs_http = any(b.startswith("http_") for b in self.buffers)
        positive = [t for t in self.tests if isinstance(t, (Content, Expression))
                    and not t.negated]
        self.has_positive = bool(positive)
        self.packet_only = ("no_stream" in self.flow or
                            any(name == "size" for name, _ in self.fields))
        self.is_anchored = any(
            test.buffer in ("payload", "file_data") and not test.is_relative and
            (not isinstance(test, Content) or
             test.begin is not None or test.span is not None)
            for test in self.tests if not isinstance(test, UseBuffer))
        self.last_relative = max(
            (i for i, test in enumerate(self.tests)
             if getattr(test, "is_relative", False)), default=-1)
        literals = [t.bytes.lower() for t in positive if isinstance(t, Content)]
        self.literal = max(literals, key=len, default=b"")

    def matches_ends(self, ends):
        """Whether its header allows (source, port, target, port)."""
        def goes(source, port, target, to):
            return (has(self.source_ports, port) and has(self.target_ports, to)
                    and has(self.source, source) and has(self.target, target))
        source, port, target, to = ends
        return (goes(source, port, target, to) or
                self.both_ways and goes(target, to, source, port))

    def matches_flow(self, to_server, established):
        for word in self.flow:
            if word in ("to_server", "from_client") and not to_server:
                return False
            if word in ("to_client", "from_server") and to_server:
                return False
            if word == "established" and not established:
                return False
            if word == "not_established" and established:
                return False
        return True

    def matches_packet(self, packet):
        for name, test in self.fields:
            value = packet.get(name)
            if value is None or not test(value):
                return False
        return True

    def matches_unit(self, unit):
        for kind, test in self.uri_sizes:
            text = unit.text(kind, False)
            if text is None or not test(len(text)):
                return False
        return self._from(0, unit, {}, "payload", set())

    def _from(self, index, unit, cursors, last, failed):
        """Whether tests from `index` on hold; `failed` is what was tried."""
        state = (index, last, *sorted(cursors.items()))
        if state in failed:
            return False
        holds = self._try(index, unit, cursors, last, failed)
        if not holds:
            failed.add(state)
        return holds

    def _try(self, index, unit, cursors, last, failed):
        for i in range(index, len(self.tests)):
            test = self.tests[i]
            if isinstance(test, (Content, Expression)):
                ends = test.matches(unit, cursors)
                if test.negated:
                    if next(ends, None) is not None:
                        return False
                    continue
                # Without a later test that is relative, one place is enough.
                if i >= self.last_relative:
                    ends = itertools.islice(ends, 1)
                return any(
                    self._from(i + 1, unit, {**cursors, test.buffer: end},
                               test.buffer, failed) for end in ends)
            if isinstance(test, UseBuffer):
                if unit.text(test.buffer, False) is None:
                    return False
                cursors = {**cursors, test.buffer: 0}
                last = test.buffer
                continue
            if isinstance(test, Number):
                cursors = dict(cursors)
            if not test.apply(unit, cursors, last):
                return False
            if isinstance(test, Number) and test.kind == "byte_jump":
                last = last if test.is_relative else test.buffer
        return True


class Unit:
    """What a rule looks at: buffers by name."""

    def __init__(self, buffers):
        self.buffers = buffers
        self.lower = {}

    def text(self, name, nocase):
        if not nocase:
            return self.buffers.get(name)
        if name not in self.lower:
            text = self.buffers.get(name)
            self.lower[name] = None if text is None else text.lower()
        return self.lower[name]

    def everything(self):
        return b"\n".join(self.buffers.values()).lower()
