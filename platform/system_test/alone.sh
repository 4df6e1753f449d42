#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a test that looks at what is on the machine while other tests run: with
# processes, interfaces, sockets, mounts, /run, /dev/shm and a temporary folder
# of its own. Without root, the test runs as it is, and says itself what it lacks.
#
# Usage: alone.sh COMMAND [ARGUMENT…]

if [ "$(id -u)" != 0 ]; then exec "$@"; fi
# shellcheck disable=SC2016  # the inner shell expands it
exec unshare --mount --net --pid --ipc --fork --kill-child sh -c '
  mount -t proc proc /proc &&
    mount -t tmpfs tmpfs /run &&
    mount -t tmpfs tmpfs /dev/shm &&
    mkdir /run/tmp && export TMPDIR=/run/tmp &&
    ip link set lo up &&
    exec "$@"' sh "$@"
