#!/usr/bin/env python3
"""Reads of one server over a memif beside the same over shared memory, in interleaved rounds: single ones, and batches
of 16.

Usage: dpdk_reads_bench.py [--rounds 5] [--seconds 2] [--records 100000] [--json] [--smoke]

Server and load are processes of their own and spin; whoever is faster on a machine with fewer cores than processes is
decided by the scheduler as well. RAMCORE_BIN_DIR says where the tools are. Exits with 0 whatever it measured.
"""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dpdk"))
from dpdk_fabric import MemifCluster  # noqa: E402 (the path comes first)
from figures import Report, ratios  # noqa: E402

TRANSPORTS = ("shm", "dpdk")


class BothCluster(MemifCluster):
    """Memifs and shared memory; the coordinator is asked over the transport that is measured."""

    def __init__(self, **options):
        super().__init__(transports=("shm", "dpdk"), **options)
        self.scheme = None

    def coordinator_locator(self, scheme=None):
        return super().coordinator_locator(scheme or self.scheme)


def measure(cluster, transport, seconds, records, *shape):
    cluster.scheme = transport
    report = json.loads(cluster.run("rcbench", "--transport", transport, "--records", records, "--value-bytes", 100,
                                    "--no-load", "--workload", "C", "--warmup-s", 0.2, "--duration-s", seconds, "--json",
                                    *shape).stdout)
    if report["errors"]:
        raise SystemExit(f"dpdk_reads_bench: reads over {transport} failed: {report['errors']}")
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    flags = parser.parse_args()
    if flags.smoke:
        flags.rounds, flags.seconds, flags.records = 1, 1, 1000

    shapes = {"reads, one at a time": ("--outstanding", 1),
              "batches of 16, one outstanding": ("--batch", 16, "--outstanding", 1),
              "batches of 16, 8 outstanding": ("--batch", 16, "--outstanding", 8)}
    found = {shape: {transport: [] for transport in TRANSPORTS} for shape in shapes}
    with BothCluster(servers=1, memory="256MiB") as cluster:
        cluster.scheme = "shm"
        cluster.run("rcbench", "--transport", "shm", "--records", flags.records, "--value-bytes", 100, "--load-only")
        for _ in range(flags.rounds):
            for shape, arguments in shapes.items():
                for transport in TRANSPORTS:
                    report = measure(cluster, transport, flags.seconds, flags.records, *arguments)
                    found[shape][transport].append(report["operations_per_s"] / 1000)
    report = Report(flags.json)
    for shape, rounds in found.items():
        for transport in TRANSPORTS:
            report.figure(f"{shape}, {transport}", "k/s", rounds[transport])
        report.figure(f"{shape}, dpdk / shm", "x", ratios(rounds["dpdk"], rounds["shm"]))
    report.finish("dpdk_reads", {"rounds": flags.rounds, "seconds": flags.seconds, "records": flags.records})


if __name__ == "__main__":
    main()
