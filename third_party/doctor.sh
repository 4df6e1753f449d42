#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ./snf doctor [--json]: what this machine has, and what each lack would mean.
# Changes nothing and needs nothing that a bare Debian lacks. Exit code 0 when
# all that building and running need is here, else 69.

set -uo pipefail
shopt -s extglob

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
readonly root
json=0
case ${1-} in
  '') ;;
  --json) json=1 ;;
  *) printf "snf: doctor: unknown argument '%s'; see ./snf --help\n" "$1" >&2
     exit 2 ;;
esac

# Findings, as parallel arrays: section, name, state, detail, what it is for.
# The states are ok, missing (required) and absent (optional).
sections=() names=() states=() details=() purposes=()
add() {
  sections+=("$1") names+=("$2") states+=("$3") details+=("$4") purposes+=("$5")
}

# Reads a one-line file of /proc or /sys; nothing when there is none.
line_of() { local line=; read -r line 2>/dev/null <"$1"; printf '%s' "$line"; }
has() { command -v "$1" >/dev/null 2>&1; }

# The version that a tool itself reports, as far as it has digits and dots.
version_of() {
  local text
  text=$("$1" --version 2>/dev/null </dev/null | head -n 3)
  [[ $text =~ ([0-9]+(\.[0-9]+)+) ]] && printf '%s' "${BASH_REMATCH[1]}"
}

# Of a number of KiB.
gib_of() {
  printf '%d.%d GiB' $(($1 / 1048576)) $(($1 % 1048576 * 10 / 1048576))
}

machine() {
  local model='' cores total='' available='' key value free os=''
  while IFS=: read -r key value; do
    if [[ $key == 'model name'* ]]; then model=${value# }; break; fi
  done </proc/cpuinfo
  cores=$(nproc)
  while read -r key value _; do
    case $key in
      MemTotal:) total=$value ;;
      MemAvailable:) available=$value ;;
    esac
  done </proc/meminfo
  # shellcheck disable=SC1091  # a file of the system
  os=$(. /etc/os-release && printf '%s' "$PRETTY_NAME") 2>/dev/null
  free=$(df -Pk -- "$root" | { read -r _; read -r _ _ _ free _; echo "$free"; })
  add machine system ok "${os:-unknown}, kernel $(uname -r)" ""
  add machine processor ok "${model:-$(uname -m)}, $cores cores" \
    "two cores or more for --clock=real"
  if ((total >= 2 * 1048576)); then
    add machine memory ok \
      "$(gib_of "$total"), $(gib_of "$available") available" ""
  else
    add machine memory missing "$(gib_of "$total"), less than 2 GiB" \
      "building"
  fi
  if ((free >= 2 * 1048576)); then
    add machine disk ok "$(gib_of "$free") free" ""
  else
    add machine disk missing "$(gib_of "$free") free, less than 2 GiB" \
      "building"
  fi
}

# Packages by the list that ./snf installs from, with each one's comment.
packages() {
  local name rest group='' version status
  while read -r name rest; do
    case $name in
      '' | '#'*) continue ;;
      '['*']') group=${name:1:-1}; continue ;;
    esac
    # shellcheck disable=SC2016  # dpkg-query expands these
    status=$(dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$name" \
             2>/dev/null | head -n 1)
    version=${status#* }
    case "$group $status" in
      *' installed '*) status=ok ;;
      build\ * | library\ *) status=missing version="not installed" ;;
      *) status=absent version="not installed" ;;
    esac
    add "$group packages" "$name" "$status" "$version" "${rest#\# }"
  done <"$root/third_party/packages.txt"
}

# tool_at_least NAME VERSION [STATE]: the one that is first on PATH; STATE is
# what an older one is.
tool_at_least() {
  local version
  has "$1" || return  # its package has been reported
  version=$(version_of "$1")
  if [[ $(printf '%s\n' "$2" "$version" | sort -V | head -n 1) == "$2" ]]; then
    add tools "$1" ok "$version" "at least $2"
  else
    add tools "$1" "${3:-missing}" \
      "${version:-unknown version} in $(command -v "$1")" \
      "the build, at least $2 and first on PATH"
  fi
}

# optional NAME PURPOSE DETAIL: present when DETAIL says something.
optional() {
  add optional "$1" "$([[ -n $3 ]] && echo ok || echo absent)" \
    "${3:-not here}" "$2"
}

features() {
  local detail=''
  if unshare -n true 2>/dev/null; then
    detail="can be made"
  elif unshare -rn true 2>/dev/null; then
    detail="in a user namespace"
  fi
  optional "network namespaces" "tests on veth pairs" "$detail"
  # shellcheck disable=SC2016  # dpkg-query expands it
  detail=$(dpkg-query -W -f '${Version}' liblxc1 2>/dev/null)
  if [[ -n $detail ]] && ((EUID)); then detail+=", but only root may"; fi
  optional LXC "units in containers, --isolation=lxc" "$detail"
  optional AF_XDP "fast packet ports" \
    "$(grep -q '^XDP ' /proc/net/protocols 2>/dev/null && echo "in the kernel")"
  optional "bpf file system" "programs of AF_XDP ports" \
    "$(grep -q ' bpf ' /proc/mounts 2>/dev/null && echo mounted)"
  detail=$(line_of /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages)
  optional "huge pages" "fewer TLB misses in large flow tables" \
    "$( ((${detail:-0})) && echo "$detail of 2 MiB")"
  optional "transparent huge pages" "the same, without setting up" \
    "$(line_of /sys/kernel/mm/transparent_hugepage/enabled)"
  optional Redis "the remote store that local state is compared with" \
    "$(has redis-server && version_of redis-server)"
  optional etcd "several hosts, and leaders of resource managers" \
    "$(has etcd && version_of etcd)"
  optional LXD "places and starts hosts, ./snf cluster up --lxd" \
    "$(has lxd && version_of lxd)"
  detail=$(line_of /proc/sys/kernel/perf_event_paranoid)
  optional perf "profiles" \
    "$(has perf && echo "$(version_of perf), perf_event_paranoid $detail")"
}

captures() {
  local directory=${SNF_TRACES:-} count
  if [[ -z $directory ]]; then directory=$root/../shared/traces; fi
  count=$(find "$directory" -maxdepth 1 -type f -name '*.pcap*' 2>/dev/null |
          wc -l)
  optional "extra test captures" "longer runs of ./snf test (SNF_TRACES)" \
    "$( ((count)) && echo "present, $count files")"
}

# Says whether a process of snf with this id lives. Others' executables only
# root may see; a script's process carries its name, too.
is_snf() {
  local program
  [[ -n $1 && -e /proc/$1 ]] || return
  # One that has ended stays until its parent has heard of it.
  if grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; then
    return 1
  fi
  program=$(readlink "/proc/$1/exe") || program=/$(line_of "/proc/$1/comm")
  [[ $program == */snf?(' (deleted)') ]]
}

# left ENTRY PID WHAT: what is named by the process that made it is left if
# that has ended.
left() {
  local process="a process that"
  if is_snf "$2"; then return; fi
  if [[ -n $2 ]]; then process="process $2, which"; fi
  add leftovers "$1" absent "left by $process has ended; $3" ""
}

# What a daemon that was killed leaves beside its lock, which has its process
# id, with the network that was made for it. The next snf down removes all but
# the log, which may say why. Notes in of_daemons what daemons have made.
left_by_daemons() {
  local file stem pid what kind name entry
  for file in "$1"/*.{lock,sock,leases,members,log,net,modules} "$1"/*.keep{,.*}; do
    if [[ $kept == *" $file "* ]]; then continue; fi
    stem=${file%%.keep*}
    if [[ $stem == "$file" ]]; then stem=${file%.*}; fi
    pid=
    if [[ -e $stem.lock ]]; then pid=$(line_of "$stem.lock"); fi
    what="snf down --name=${stem##*/} removes it"
    if [[ $file == *.net ]]; then
      while read -r kind name; do
        case $kind in
          link) entry=/sys/class/net/$name ;;
          netns) entry=/run/netns/$name ;;
          *) continue ;;
        esac
        of_daemons+=" $entry "
        if [[ -e $entry ]]; then left "$entry" "$pid" "$what"; fi
      done <"$file"
    fi
    if [[ $file == *.log ]]; then what="it may say why"; fi
    if [[ $file == *.members ]]; then
      what="the next snf manager --name=${stem##*/} goes on with who is in it"
    fi
    left "$file" "$pid" "$what"
  done
}

# Says at which socket the launcher waits for the next daemon if its own is
# killed; nothing if it does not.
keep_of() {
  local link target own='' flags inode path
  for link in "/proc/$1/fd/"*; do
    target=$(readlink "$link") || continue
    own+=" ${target//[^0-9]/} "
  done
  while read -r _ _ _ flags _ _ inode path; do
    # Of who listens, not of those who are connected.
    if [[ $path == *.keep* && $flags == 00010000 && $own == *" $inode "* ]]; then
      printf '%s' "$path"
    fi
  done <"/proc/$1/net/unix"
}

# A launcher, and all that it has started, ends with whoever made it, or is
# kept for the next daemon. Notes in kept where it is.
left_processes() {
  local entry pid parent file stem dead
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/}
    parent=$(sed -n 's/^PPid:[[:space:]]*//p' "$entry/status" 2>/dev/null)
    if [[ $parent != 1 ]] || ! is_snf "$pid" ||
       [[ $(tr '\0' ' ' 2>/dev/null <"$entry/cmdline") != *'unit-process '* ]]
    then
      continue
    fi
    file=$(keep_of "$pid")
    stem=${file%%.keep*}
    dead=
    if [[ -e $stem.lock ]]; then dead=$(line_of "$stem.lock"); fi
    if [[ -z $file ]]; then
      add leftovers "process $pid" absent "a launcher of units, whose maker has ended" ""
    elif ! is_snf "$dead"; then
      kept+=" $file "
      add leftovers "$file" absent "units and loggers of process $dead, which was killed, wait there for snf up --name=${stem##*/}; snf down --name=${stem##*/} ends them" ""
    fi
  done
}

# What a run that was killed may leave. While a snf process lives, it may own
# what has no process in its name.
leftovers() {
  local entry running='' name pid of_daemons='' kept=''
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/}
    if is_snf "$pid"; then running+=" $pid"; fi
  done
  shopt -s nullglob
  left_processes
  left_by_daemons /run/snf
  if [[ -n ${XDG_RUNTIME_DIR-} ]]; then
    left_by_daemons "$XDG_RUNTIME_DIR/snf"
  fi
  for entry in /run/snf-units/snf-* /sys/fs/cgroup/snf-* \
               /sys/fs/cgroup/*/snf-*; do
    name=${entry##*/snf-}
    if [[ $name == cluster-* ]]; then continue; fi  # ./snf cluster down does
    left "$entry" "${name%%-*}" "the next container removes it"
  done
  for entry in /dev/shm/snf* /sys/class/net/snf* /run/netns/snf* \
               /var/lib/lxc/snf*; do
    if [[ $of_daemons == *" $entry "* ]]; then continue; fi
    add leftovers "$entry" absent \
      "${running:+in use by$running, or }left by a run that was killed" ""
  done
  shopt -u nullglob
}

escaped() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//[[:cntrl:]]/ }"
}

print_json() {
  local i separator=''
  printf '{"ok": %s, "findings": [' "$1"
  for i in "${!names[@]}"; do
    printf '%s\n  {"section": %s, "name": %s, "state": %s, "detail": %s, ' \
      "$separator" "$(escaped "${sections[i]}")" "$(escaped "${names[i]}")" \
      "$(escaped "${states[i]}")" "$(escaped "${details[i]}")"
    printf '"for": %s}' "$(escaped "${purposes[i]}")"
    separator=,
  done
  printf '\n]}\n'
}

print_text() {
  local i section='' mark purpose
  for i in "${!names[@]}"; do
    if [[ ${sections[i]} != "$section" ]]; then
      section=${sections[i]}
      printf '%s\n' "$section"
    fi
    case ${states[i]} in
      ok) mark=' ' purpose= ;;
      missing) mark='!' purpose=${purposes[i]:+ — ${purposes[i]}} ;;
      *) mark='-' purpose=${purposes[i]:+ — ${purposes[i]}} ;;
    esac
    printf '  %s %-22s %s\n' "$mark" "${names[i]}" "${details[i]}$purpose"
  done
  if [[ $section != leftovers ]]; then
    printf 'leftovers of runs that were killed\n    none\n'
  fi
}

machine
packages
tool_at_least g++ 12
tool_at_least cmake 3.25
tool_at_least ninja 1.10
tool_at_least python3 3.11 absent
features
captures
leftovers

ok=true
if [[ " ${states[*]} " == *' missing '* ]]; then ok=false; fi
if ((json)); then
  print_json "$ok"
else
  print_text
  if [[ $ok == true ]]; then
    printf '\nSNF can be built and run here.\n'
  else
    printf '\nWhat is marked with ! is required. ./snf setup installs packages.\n'
  fi
fi
[[ $ok == true ]] || exit 69
