#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./snf cluster`: a cluster on this machine, as host_cluster.py draws it, or
with LXD (lxd_cluster.py)."""

import argparse
import os
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
from host_cluster import DEFAULT_NF, Cluster
from lxd_cluster import LxdCluster
from machine import INTERRUPTED, IO, OK, PERMISSION, Failure, say


def kind_of(name, wants_lxd, action):
    """A cluster that is here stays of its kind."""
    here = Cluster.flag_of(name)
    if here is None:
        wants_lxd = wants_lxd or (action == "down" and
                                  LxdCluster.has_left_files(name))
        return LxdCluster if wants_lxd else Cluster
    if wants_lxd and here != LxdCluster.FLAG:
        raise Failure(f"cluster \"{name}\" is here, and was made without --lxd: "
                      "./snf cluster down removes it")
    return LxdCluster if here == LxdCluster.FLAG else Cluster


def main():
    parser = argparse.ArgumentParser(
        prog="snf cluster", description="A cluster on this machine, as root: "
        "three hosts in network namespaces, each with a member of etcd and an "
        "agent of units, and a daemon between a client's host and a server's.")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--name", default="cluster",
                        help="of the cluster and its daemon")
    parser.add_argument("--nf", default=DEFAULT_NF,
                        help=f"the chain of NFs; by default {DEFAULT_NF}")
    parser.add_argument("--units", type=int, default=2, choices=range(1, 6),
                        help="of each host, 2 by default")
    parser.add_argument("--policy", default="snf",
                        help="that places flowlets on units; rotate uses all")
    parser.add_argument("--lxd", action="store_true",
                        help="a, b and c are members of a cluster of LXD, which "
                        "places the hosts of units, as containers")
    parser.add_argument("--add", default="", metavar="FILE,…",
                        help="files or folders with absolute paths that NFs "
                        "read; with --lxd the containers get them as well")
    parser.add_argument("action", choices=("up", "down", "status"),
                        help="up: make it, or start what is missing; down: "
                        "remove all; status: what runs")
    flags = parser.parse_args()
    cluster = kind_of(flags.name, flags.lxd, flags.action)(
        flags.name, os.path.abspath(flags.program), flags.nf, flags.units,
        flags.policy, flags.add)
    if os.geteuid() != 0:
        raise Failure("wants root: it makes network namespaces", PERMISSION)
    if flags.action == "status":
        return cluster.status()
    cluster.up() if flags.action == "up" else cluster.down()
    return OK


def run():
    try:
        code = main()
        sys.stdout.flush()
        return code
    except Failure as failure:
        say(str(failure))
        return failure.code
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # as by `status | head`
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        return IO


if __name__ == "__main__":
    sys.exit(run())
