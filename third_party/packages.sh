# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154  # set by ./snf
#
# Which Debian packages a command needs, and installing them. Sourced by ./snf,
# which provides say, die, run_quietly, root and the exit codes.

readonly package_list=$root/third_party/packages.txt

# packages_of GROUP…: the packages of these groups, one a line.
packages_of() {
  local name _ group=
  while read -r name _; do
    case $name in
      '' | '#'*) ;;
      '['*']') group=${name:1:-1} ;;
      *) if [[ " $* " == *" $group "* ]]; then printf '%s\n' "$name"; fi ;;
    esac
  done <"$package_list"
}

# need GROUP…: makes sure that the packages of these groups are installed. The
# stamp saves asking dpkg as long as neither it nor the list has changed.
need() {
  local stamp key wanted installed package missing=()
  stamp=$(IFS=+; printf '%s' "$root/build/.packages-$*")
  mkdir -p "$root/build"
  key=$(cksum <"$package_list"; stat -c '%Y %s' /var/lib/dpkg/status 2>&1) ||
    true
  [[ -f $stamp && $(<"$stamp") == "$key" ]] && return
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system: packages are not checked; $package_list has them"
  else
    mapfile -t wanted < <(packages_of "$@")
    # shellcheck disable=SC2016  # dpkg-query expands these
    installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' \
                "${wanted[@]}" 2>/dev/null) || true
    for package in "${wanted[@]}"; do
      [[ $'\n'$installed$'\n' == *$'\n'"$package installed"$'\n'* ]] ||
        missing+=("$package")
    done
    if ((${#missing[@]})); then
      install_packages "${missing[@]}"
      key=$(cksum <"$package_list"; stat -c '%Y %s' /var/lib/dpkg/status)
    fi
  fi
  printf '%s\n' "$key" >"$stamp"
}

install_packages() {
  local plan answer size disk seconds log=$root/build/packages.log
  local install=(apt-get install --yes --no-install-recommends "$@")
  say "Debian packages that are missing: $*"
  if ((EUID)); then
    say "installing them needs root; run this, and then the command again:"
    say "  sudo apt-get update && sudo ${install[*]}"
    exit "$kPermission"
  fi
  if [[ ! -t 0 && $yes == 0 && ${CI:-} != true ]]; then
    say "nobody to ask; give --yes (./snf --yes …), or run:"
    say "  apt-get update && ${install[*]}"
    exit "$kUnavailable"
  fi
  export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
  run_quietly "reading Debian's package lists" "$log" \
    apt-get -o DPkg::Lock::Timeout=120 update ||
    say "going on with the package lists that this machine has"
  # Answering no makes apt-get print its plan and exit with 1.
  plan=$(apt-get install --assume-no --no-install-recommends "$@" 2>&1 \
         </dev/null) || true
  [[ $plan =~ Need\ to\ get\ (([0-9.,]+)\ ([kMG]?)B) ]] ||
    die "$kUnavailable" "apt-get cannot install these packages: $plan"
  size=${BASH_REMATCH[1]} seconds=${BASH_REMATCH[2]//,/}
  case ${BASH_REMATCH[3]} in   # at 4 MB/s of download and unpacking
    G) seconds=$((${seconds%.*} * 250 + 250)) ;;
    M) seconds=$((${seconds%.*} / 4 + 20)) ;;
    *) seconds=20 ;;
  esac
  disk=
  [[ $plan =~ operation,\ ([0-9.,]+\ [kMG]?B) ]] && disk=${BASH_REMATCH[1]}
  say "to download: $size (${disk:-?} on disk), about $seconds s"
  if [[ $yes == 0 && ${CI:-} != true ]]; then
    read -rp 'snf: install them now? [Y/n] ' answer || answer=n
    [[ ${answer:-y} == [Yy]* ]] || die "$kUnavailable" "nothing was installed"
  fi
  run_quietly "installing packages" "$log" "${install[0]}" \
    -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "${install[@]:1}" ||
    exit "$kUnavailable"
}
