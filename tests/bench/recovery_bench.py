#!/usr/bin/env python3
"""How long the data of a killed server is away: a coordinator and 4 servers with 3 copies, beside Redis starting again
from its append-only file with the same data.

Usage: recovery_bench.py [--rounds 3] [--records 1000000] [--no-peers] [--json] [--smoke]

Each round has a cluster of its own: `records` objects of 100 bytes with keys of 30, spread over the servers by 16 tablets,
one server killed with SIGKILL. Times are the coordinator's: from the kill to the verdict, from there to the first
and to the last tablet that is served again. Redis has all the data in one process and one copy; it is killed and
started, and asked until it answers. RAMCORE_BIN_DIR says where the tools are. Exits with 0 whatever it measured.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from cluster_harness import Cluster, Failed  # noqa: E402 (the path comes first)
from figures import Report  # noqa: E402

def said_at(line):
    return datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00")).timestamp()


def recover_once(records):
    """Seconds from the kill to the verdict, and from there to the first and to the last tablet."""
    with Cluster(servers=4, memory="512MiB", name="recovery", transports=("tcp",), replicas=3, storage="2GiB") as cluster:
        cluster.leaves_everything = False  # nobody asks what a benchmark leaves
        cluster.run("rcbench", "--records", records, "--load-only", "--tablets", 16, "--connections", 2, "--outstanding",
                    32, timeout=600)
        victim = cluster.servers["s2"]
        killed_at = time.time()
        victim.kill()
        cluster.coordinator.wait_says("is recovered", 120)
        verdict = recovered = None
        with open(cluster.coordinator.log_path, encoding="utf-8") as file:
            for line in file:
                if "(s2) is declared dead" in line:
                    verdict = said_at(line)
                found = re.search(r"is recovered: \d+ tablets, the first back after (\d+) ms, the last after (\d+) ms", line)
                if found:
                    recovered = [int(found[1]) / 1000, int(found[2]) / 1000]
        if verdict is None or recovered is None:
            raise Failed(f"the coordinator's log is not understood\n{cluster.coordinator.log()}")
        live = json.loads(cluster.rc("status", "--json"))
        objects = sum(server["objects"] for server in live["servers"] if server["alive"])
        if objects != records:
            raise Failed(f"{objects} objects after the recovery, {records} before")
    return verdict - killed_at, *recovered


class Redis:
    """With an append-only file that is flushed every second, as it comes."""

    def __init__(self, records):
        self.folder = tempfile.mkdtemp(prefix="ramcore-bench-")
        self.path = os.path.join(self.folder, "redis.sock")
        self.process = None
        self.start()
        value = b"v" * 100
        pipe = subprocess.Popen(["redis-cli", "-s", self.path, "--pipe"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for number in range(records):
            key = b"object/%023d" % number
            pipe.stdin.write(b"*3\r\n$3\r\nSET\r\n$30\r\n%s\r\n$100\r\n%s\r\n" % (key, value))
        pipe.communicate()
        self.records = records

    def ask(self, question):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(self.path)
            peer.sendall(question + b"\r\n")
            return peer.recv(4096)

    def start(self):
        if os.path.exists(self.path):
            os.remove(self.path)
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--appendonly", "yes", "--appendfsync",
             "everysec", "--dir", self.folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while True:  # somebody else's program, which says nothing when it has loaded: one asks until it answers
            try:
                if self.ask(b"PING").startswith(b"+PONG"):
                    return
            except OSError:
                pass
            if time.monotonic() > end or self.process.poll() is not None:
                raise Failed("redis-server does not start; tools/setup --bench installs it")
            time.sleep(0.005)

    def restart(self):
        self.process.kill()
        self.process.wait()
        begin = time.monotonic()
        self.start()
        took = time.monotonic() - begin
        if self.ask(b"DBSIZE") != b":%d\r\n" % self.records:
            raise Failed("Redis does not have all records")
        return took

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)


def main():
    parser = argparse.ArgumentParser(description="How long the data of a killed server is away.")
    parser.add_argument("--rounds", type=int, default=3, help="of each side (3)")
    parser.add_argument("--records", type=int, default=1_000_000, help="in the cluster (1000000)")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without Redis")
    parser.add_argument("--json", action="store_true", help="nothing but JSON")
    parser.add_argument("--smoke", action="store_true", help="seconds in all: that it runs")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.records, options.peers = 1, 20_000, False
    report = Report(options.json)
    redis = Redis(options.records) if options.peers else None
    ours, theirs = [], []
    try:
        for _ in range(options.rounds):
            if redis:
                theirs.append(redis.restart())
            ours.append(recover_once(options.records))
    finally:
        if redis:
            redis.stop()
    report.figure("from the kill to the verdict", "s", [row[0] for row in ours])
    report.figure("from the verdict to the first tablet", "s", [row[1] for row in ours])
    report.figure("from the verdict to the last tablet", "s", [row[2] for row in ours])
    report.figure("objects of the killed server, a second", "k/s", [options.records / 4 / row[2] / 1000 for row in ours])
    if theirs:
        report.figure("redis, restart from its append-only file", "s", theirs)
    report.finish("recovery", {"rounds": options.rounds, "records": options.records})
    return 0


if __name__ == "__main__":
    sys.exit(main())
