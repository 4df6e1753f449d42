#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Records traces/small.pcap.zst: real clients and servers in three network
# namespaces, captured on the router between them. See traces/README.md.
#
#   sudo traces/record/record.sh [FILE]      (default: traces/small.pcap.zst)
#
# Takes about twelve seconds. Namespaces, links and processes are its own and are
# removed on every exit; what an earlier crash left is removed at the start.
# Exit codes: 0 recorded, 2 usage, 69 something is missing, 70 the recording
# failed a check, 77 not root, 130 interrupted.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
readonly here
readonly out=${1:-${here%/*}/small.pcap.zst}
readonly prefix=snf-record-
readonly clients=${prefix}clients router=${prefix}router
readonly servers=${prefix}servers
readonly seed=7
readonly max_bytes=3000000 min_packets=30000 max_packets=80000
work=''
pids=()

die() {
  local code=$1
  shift
  echo "record.sh: $*" >&2
  exit "$code"
}

# Ends the processes inside a namespace of ours and removes it.
remove_namespace() {
  local pid
  for pid in $(ip netns pids "$1"); do
    kill -KILL "$pid" 2>/dev/null || true
  done
  ip netns del "$1"
}

remove_namespaces() {
  local name
  while read -r name _; do
    if [[ $name == "$prefix"* ]]; then remove_namespace "$name"; fi
  done < <(ip netns list)
}

clean_up() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  remove_namespaces
  if [[ -n $work ]]; then rm -rf "$work"; fi
}

check_tools() {
  [[ $# -le 1 ]] || die 2 "usage: record.sh [FILE]"
  [[ $EUID -eq 0 ]] || die 77 "network namespaces need root"
  local tool
  for tool in dnsmasq ethtool flock ip iperf3 ping python3 ss sysctl tcpdump \
    zstd; do
    command -v "$tool" >/dev/null ||
      die 69 "$tool is missing: install what traces/record/packages.txt lists"
  done
}

# Starts a program in a namespace, in the background and bounded in time. The
# lock is not handed on: a left-over process must not hold it.
start() {
  local namespace=$1
  shift
  ip netns exec "$namespace" timeout -k 1 30 "$@" 9>&- \
    >>"$work/log" 2>&1 &
  pids+=($!)
}

# link NAMESPACE-A NAME-A MAC-A NAMESPACE-B NAME-B MAC-B
link() {
  ip link add "$2" address "$3" netns "$1" type veth \
    peer name "$5" address "$6" netns "$4"
  bring_up "$1" "$2"
  bring_up "$4" "$5"
}

# Offloads off, so that frames and checksums are those of a wire; no link-local
# addresses, which are none of the documentation ranges.
bring_up() {
  local in=(ip netns exec "$1")
  "${in[@]}" ethtool -K "$2" gro off gso off tso off tx off rx off sg off \
    >/dev/null 2>&1
  "${in[@]}" sysctl -qw "net.ipv6.conf.$2.addr_gen_mode=1" \
    "net.ipv6.conf.$2.accept_dad=0"
  ip -n "$1" link set "$2" up
}

# neighbour NAMESPACE LINK ADDRESS MAC
neighbour() {
  ip -n "$1" neighbour replace "$3" lladdr "$4" dev "$2" nud permanent
}

make_network() {
  local name n
  for name in "$clients" "$router" "$servers"; do
    ip netns add "$name"
    ip -n "$name" link set lo up
  done
  ip netns exec "$router" sysctl -qw net.ipv4.ip_forward=1 \
    net.ipv6.conf.all.forwarding=1
  link "$clients" uplink 02:00:00:00:01:02 "$router" inside 02:00:00:00:01:01
  link "$servers" uplink 02:00:00:00:02:02 "$router" outside 02:00:00:00:02:01

  ip -n "$router" address add 192.0.2.1/24 dev inside
  ip -n "$router" address add 2001:db8:1::1/64 dev inside
  ip -n "$router" address add 198.51.100.1/24 dev outside
  ip -n "$router" address add 2001:db8:2::1/64 dev outside
  ip -n "$router" route add 203.0.113.0/24 via 198.51.100.10
  for n in {10..25}; do
    ip -n "$clients" address add "192.0.2.$n/24" dev uplink
  done
  for n in {10..13}; do
    ip -n "$clients" address add "2001:db8:1::$n/64" dev uplink
  done
  for n in {10..12}; do
    ip -n "$servers" address add "198.51.100.$n/24" dev uplink
  done
  ip -n "$servers" address add 203.0.113.53/32 dev lo
  ip -n "$servers" address add 2001:db8:2::10/64 dev uplink
  # Neighbour discovery does not work without link-local addresses.
  for n in {10..13}; do
    neighbour "$router" inside "2001:db8:1::$n" 02:00:00:00:01:02
  done
  neighbour "$router" outside 2001:db8:2::10 02:00:00:00:02:02
  neighbour "$clients" uplink 2001:db8:1::1 02:00:00:00:01:01
  neighbour "$servers" uplink 2001:db8:2::1 02:00:00:00:02:01
  ip -n "$clients" route add default via 192.0.2.1
  ip -n "$clients" route add default via 2001:db8:1::1
  ip -n "$servers" route add default via 198.51.100.1
  ip -n "$servers" route add default via 2001:db8:2::1
}

start_servers() {
  local port
  start "$servers" python3 "$here/servers.py" 198.51.100.10 198.51.100.11 \
    198.51.100.12 2001:db8:2::10
  start "$servers" dnsmasq --keep-in-foreground --conf-file=/dev/null \
    --no-resolv --no-hosts --user=root --pid-file= --bind-interfaces \
    --listen-address=203.0.113.53 --local=/example.net/ \
    --host-record=www.example.net,198.51.100.10 \
    --host-record=static.example.net,198.51.100.11 \
    --host-record=api.example.net,198.51.100.12
  for port in {5201..5209}; do
    start "$servers" iperf3 -s -1 -p "$port"
  done
  wait_for_listeners 13  # HTTP on four addresses and nine of iperf3
}

wait_for_listeners() {
  local listening _
  for _ in {1..50}; do
    listening=$(ip netns exec "$servers" ss -Hltn \
      'sport = :80 or ( sport >= :5201 and sport <= :5209 )' | wc -l)
    if ((listening == $1)); then return; fi
    sleep 0.1
  done
  die 70 "$listening of $1 servers listen after 5 s: $(tail -n 1 "$work/log")"
}

start_capture() {
  # Without the multicast listener reports, whose source is "::".
  start "$router" tcpdump -i inside -n -s 0 -B 32768 -Z root \
    --time-stamp-precision=nano -w "$work/captured.pcap" \
    'not ip6 multicast'
  capture=${pids[-1]}
  local _
  for _ in {1..50}; do
    if grep -q 'listening on' "$work/log"; then return; fi
    sleep 0.1
  done
  die 70 "tcpdump does not listen after 5 s: $(tail -n 1 "$work/log")"
}

now_ms() { date +%s%3N; }

# at MILLISECONDS PROGRAM…: starts a client so long after the beginning.
at() {
  local left=$((begin_ms + $1 - $(now_ms)))
  shift
  if ((left > 0)); then
    sleep "$(printf '%d.%03d' $((left / 1000)) $((left % 1000)))"
  fi
  start "$clients" "$@"
}

# stream PORT LAST-BYTE ARGUMENTS…: an iperf3 client. Payload that repeats, so
# that the file packs well.
stream() {
  local port=$1 last=$2
  shift 2
  echo iperf3 -c 198.51.100.10 -B "192.0.2.$last" -p "$port" \
    --repeating-payload "$@"
}

# Quiet, busy (1.0 s to 3.2 s), burst (3.2 s to 3.9 s), quiet (to 5.0 s).
run_clients() {
  begin_ms=$(($(now_ms) + 1000))
  start "$clients" python3 "$here/clients.py" "$begin_ms" "$seed"
  local hosts=${pids[-1]}
  at 50 ping -q -i 0.2 -c 24 -I 192.0.2.20 198.51.100.12
  at 50 ping -q -i 0.2 -c 24 -I 2001:db8:1::13 2001:db8:2::10
  at 300 ping -q -i 0.2 -c 3 -s 3000 -I 192.0.2.21 198.51.100.10
  at 350 ping -q -i 0.2 -c 2 -s 3000 -I 2001:db8:1::12 2001:db8:2::10
  # shellcheck disable=SC2046 # the words are meant to be split
  {
    at 1000 $(stream 5201 11 -t 2 -b 14M -l 4K)
    at 1050 $(stream 5202 12 -t 2 -b 9M -l 4K -R)
    at 1100 $(stream 5203 13 -t 1 -b 20M -l 8K)
    at 1200 $(stream 5204 14 -t 2 -b 6M -l 1000 -u)
    at 1600 iperf3 -c 2001:db8:2::10 -B 2001:db8:1::11 -p 5205 \
      --repeating-payload -t 1 -b 18M -l 4K
    at 2100 $(stream 5206 15 -t 1 -b 25M -l 8K -R)
    at 3200 $(stream 5207 16 -n 7M --fq-rate 120M)
    at 3250 $(stream 5208 17 -n 6M --fq-rate 120M)
    at 3350 $(stream 5209 18 -n 7M --fq-rate 120M)
  }
  wait "$hosts" || die 70 "clients.py failed: $(tail -n 1 "$work/log")"
  if grep '^iperf3: error' "$work/log" >&2; then die 70 "iperf3 failed"; fi
}

stop_capture() {
  # To tcpdump itself: `timeout` hands the signal on.
  kill -INT "$capture"
  wait "$capture" || true
  grep -q '^0 packets dropped by kernel' "$work/log" ||
    die 70 "the kernel dropped packets of the capture; try again"
  "$here/in_time_order.py" <"$work/captured.pcap" >"$work/small.pcap"
}

# Prints how many packets of the recording match a filter.
matching() {
  tcpdump -r "$work/small.pcap" -n "$@" 2>/dev/null | wc -l
}

check_recording() {
  local packets foreign size
  packets=$(matching)
  ((packets >= min_packets && packets <= max_packets)) ||
    die 70 "$packets packets: want $min_packets to $max_packets"
  foreign=$(matching "ip and not (src net (192.0.2.0/24 or 198.51.100.0/24 or
    203.0.113.0/24) and dst net (192.0.2.0/24 or 198.51.100.0/24 or
    203.0.113.0/24)) or ip6 and not (src net 2001:db8::/32 and
    dst net 2001:db8::/32)")
  ((foreign == 0)) || die 70 "$foreign packets with undocumented addresses"
  (($(matching 'greater 1515') == 0)) || die 70 "a frame is above 1514 bytes"
  zstd -q -19 "$work/small.pcap" -o "$work/small.pcap.zst"
  size=$(stat -c %s "$work/small.pcap.zst")
  ((size <= max_bytes)) || die 70 "$size bytes: want at most $max_bytes"
  mv "$work/small.pcap.zst" "$out"
  echo "$out: $packets packets, $size bytes"
}

main() {
  check_tools "$@"
  exec 9>/run/lock/snf-record
  flock -w 5 9 || die 69 "another record.sh is running"
  trap clean_up EXIT
  trap 'exit 130' INT TERM HUP
  remove_namespaces
  rm -rf "${TMPDIR:-/tmp}/$prefix"*
  work=$(mktemp -d -t "${prefix}XXXXXX")
  make_network
  start_servers
  start_capture
  run_clients
  stop_capture
  check_recording
}

main "$@"
