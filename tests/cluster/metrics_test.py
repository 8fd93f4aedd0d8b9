#!/usr/bin/env python3
"""--metrics: the numbers are there, count what happened, and are those of docs/metrics.md."""

import json
import os
import re
import socket
import sys
import time

from cluster_harness import Cluster, Daemon, Failed, run, tool
from metrics_endpoint import free_port, scrape

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "metrics.md")


def expect(condition, text):
    if not condition:
        raise Failed(text)


def documented_families():
    """Of every process, and those that only a coordinator or only a server has."""
    text = open(DOCUMENT, encoding="utf-8").read()
    common, only = text.split("A coordinator adds:")
    coordinator_only, server_only = only.split("A server that serves adds:")
    return [set(re.findall(r"`(ramcore_\w+)`", part)) for part in (common, coordinator_only, server_only)]


def test_coordinator(cluster, documented):
    """Its endpoint serves what every process has, and counts its own requests."""
    port = free_port()
    storage = cluster.path("measured")
    coordinator = Daemon("measured", cluster.coordinator_arguments(["tcp://127.0.0.1:0"], storage)
                         + ["--metrics", f"127.0.0.1:{port}"], cluster.path("measured.log"))
    try:
        coordinator.wait_ready()
        rc = [tool("ramcore"), "--coordinator", coordinator.locators[0], "--cluster", cluster.name]
        run(rc + ["list"])
        values, families = scrape(port)
        expect(families == documented, f"documented and served differ in {sorted(families ^ documented)}")
        asked = values['ramcore_requests_total{opcode="ListTables"}']
        expect(asked >= 1, f"{asked} requests for the tables")
        expect(values['ramcore_request_service_seconds_count{opcode="ListTables"}'] == asked, "times and counts differ")
        expect(values['ramcore_bad_sessions_total{transport="tcp"}'] == 0, "no session is bad")
        expect(values["ramcore_bad_requests_total"] == 0, "no request is bad")
    finally:
        expect(coordinator.stop() == 0, "the coordinator stops cleanly")


def main():
    common, coordinator_only, server_only = documented_families()
    documented = common | server_only
    with Cluster(servers=0, replicas=2) as cluster:
        port = free_port()
        server = cluster.start_server("s1", extra=["--local-replica", "--metrics", f"127.0.0.1:{port}"])
        cluster.rc("create", "t")
        for i in range(20):
            cluster.rc("put", "t", f"key{i}", "value")
        values, families = scrape(port)
        expect(families == documented, f"documented and served differ in {sorted(families ^ documented)}")
        writes = values['ramcore_requests_total{opcode="Write"}']
        expect(writes >= 20, f"{writes} writes")
        expect(values['ramcore_request_service_seconds_count{opcode="Write"}'] == writes, "times and counts differ")
        expect(values['ramcore_request_queue_seconds_bucket{opcode="Write",le="+Inf"}'] == writes, "no last bucket")
        expect(values["ramcore_index_entries"] == 20, "20 keys are in the index")
        [state] = json.loads(cluster.rc("status", "--json"))["servers"]
        expect(state["index_bytes"] == values["ramcore_index_memory_bytes"], f"index: {state['index_bytes']} bytes")
        overhead = 22 + values["ramcore_index_memory_bytes"] / 20
        expect(abs(state["overhead_bytes_per_object"] - overhead) < 0.01, f"not {overhead}: {state}")
        appended, sent = values["ramcore_log_appended_bytes_total"], values["ramcore_replica_bytes_total"]
        expect(state["appended_bytes"] == appended > 0, f"appended {appended}: {state}")
        expect(state["replica_bytes"] >= sent > 0, f"sent {sent}: {state}")
        amplification = state["replica_bytes"] / appended
        expect(abs(state["write_amplification"] - amplification) < 0.001, f"not {amplification}: {state}")
        expect(state["pinned_bytes"] == 0, "short values are copied")
        expect(state["compaction_copied_bytes"] == state["compaction_freed_bytes"] == 0, "nothing was cleaned")
        expect(abs(values["ramcore_object_overhead_bytes"] - overhead) < 0.01, f"not {overhead}")
        expect(values["ramcore_index_splits_per_operation_max"] <= 2, "one operation splits two buckets at most")
        expect(values["ramcore_lease_remaining_seconds"] > 0, "the server has a lease")
        expect(values["ramcore_replicas_least"] == values["ramcore_replicas_wanted"] == 1, "every segment has its copy")
        expect(values["ramcore_replica_writes_total"] >= 20, "every write was copied")
        expect(0 < values["ramcore_replica_bytes_total"] <= values["ramcore_backup_written_bytes_total"], "bytes of copies")
        expect(values["ramcore_backup_frames_free"] < values["ramcore_backup_frames"], "copies take frames")
        # Requests that never arrive hold nobody up for long, however many there are.
        bad = "ramcore_metrics_bad_requests_total"
        halves = []
        for _ in range(6):
            half = socket.create_connection(("127.0.0.1", port))
            half.sendall(b"GET /metr")
            halves.append(half)
        begin = time.monotonic()
        values, _ = scrape(port)
        expect(time.monotonic() - begin < 8, "a scrape waits for requests that do not come")
        with socket.create_connection(("127.0.0.1", port)) as garbage:
            garbage.sendall(b"\x00\x01 nonsense\r\n\r\n")
            while garbage.recv(4096):
                pass
        expect(scrape(port)[0][bad] > values[bad], "a request that made no sense is counted")
        for half in halves:
            half.close()
        # A port that is taken is a line and an end.
        second = run(cluster.server_arguments("s2") + ["--metrics", f"127.0.0.1:{port}"], check=False)
        expect(second.returncode != 0 and "--metrics" in second.stderr, second.stderr)
        broken = run(cluster.server_arguments("s3") + ["--metrics", "nonsense"], check=False)
        expect(broken.returncode != 0 and "host:port" in broken.stderr, broken.stderr)
        expect(server.stop() == 0, "the server stops cleanly")
        test_coordinator(cluster, common | coordinator_only)


if __name__ == "__main__":
    sys.exit(main())
