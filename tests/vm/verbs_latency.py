#!/usr/bin/env python3
"""Calls over queue pairs beside ib_send_lat, in interleaved rounds in the machine with software devices (tests/vm/run).

Usage: verbs_latency.py [--rounds 5] [--calls 1000] [--bytes 100]

ib_send_lat prints half of a round trip, so a call is held against twice that. Exits with 0 whatever it measured.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from cluster_harness import BIN_DIR  # noqa: E402 (the path comes first)
from figures import Report, ratios  # noqa: E402

BENCH = os.path.join(BIN_DIR, "..", "bench_verbs")
DEVICES = (os.environ.get("RDMA_DEV0", ""), os.environ.get("RDMA_DEV1", ""))
GID = os.environ.get("RDMA_GID_INDEX", "1")
ADDRESS = os.environ.get("RDMA_IP0", "")
SECONDS_MAX = 120
ATTEMPTS_MAX = 3
NOISY_RATIO = 1.5


def start(*command):
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def half_round_trip_us(calls, size):
    """What ib_send_lat calls typical."""
    command = ["ib_send_lat", "-F", "-x", GID, "-s", size, "-n", calls]
    server = start(*command, "-d", DEVICES[0])
    try:
        for attempt in range(50):
            client = start(*command, "-d", DEVICES[1], ADDRESS)
            output, _ = client.communicate(timeout=SECONDS_MAX)
            if client.returncode == 0:
                break
            time.sleep(0.1)  # the server does not say when it listens
        else:
            raise SystemExit(f"verbs_latency: ib_send_lat failed {attempt + 1} times: {output}")
    finally:
        server.kill()
        server.communicate()
    # bytes, iterations, t_min, t_max, t_typical, ...
    row = re.search(rf"^\s*{size}\s+{calls}\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", output, re.M)
    return float(row.group(3))


def call_us(calls, size):
    server = start(BENCH, "--device", DEVICES[0], "--listen", f"verbs://{ADDRESS}:0")
    try:
        words = server.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise SystemExit(f"verbs_latency: bench_verbs does not serve: {' '.join(words)} {server.communicate()[0]}")
        client = start(BENCH, "--device", DEVICES[1], "--connect", words[1], "--calls", calls, "--bytes", size)
        output, _ = client.communicate(timeout=SECONDS_MAX)
        if client.returncode != 0:
            raise SystemExit(f"verbs_latency: bench_verbs failed: {output}")
        return json.loads(output)["p50_us"]
    finally:
        server.kill()
        server.communicate()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--bytes", type=int, default=100)
    flags = parser.parse_args()
    # Rounds of the peer that differ by more say that the machine does, and not what is compared.
    for attempt in range(1, ATTEMPTS_MAX + 1):
        peer, ours = [], []
        for _ in range(flags.rounds):
            peer.append(2 * half_round_trip_us(flags.calls, flags.bytes))
            ours.append(call_us(flags.calls, flags.bytes))
        is_noisy = max(peer) > NOISY_RATIO * min(peer)
        if not is_noisy:
            break
        print(f"attempt {attempt} of {ATTEMPTS_MAX} at most: noisy, the rounds of ib_send_lat differ by "
              f"{max(peer) / min(peer):.2f}x", flush=True)
    report = Report(False)
    report.figure(f"twice ib_send_lat, {flags.bytes} B, typical", "us", peer)
    report.figure(f"call of {flags.bytes} B, p50", "us", ours)
    report.figure("call / twice ib_send_lat", "x", ratios(ours, peer), at_most=1.5)
    if is_noisy:
        print("  noisy, each time")
    report.finish("verbs_latency", {"rounds": flags.rounds, "calls": flags.calls, "bytes": flags.bytes})


if __name__ == "__main__":
    main()
