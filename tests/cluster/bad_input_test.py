#!/usr/bin/env python3
"""What people get wrong on command lines and around them: each ends with one line on stderr that names the cause (and
what to do), and with an exit code that is not 0. One row of the tables below is one test."""

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import unittest

from cluster_harness import Cluster, Daemon, run, tool

# A server that keeps copies neither of its own objects nor of others.
VOLATILE = ["--replicas", "0", "--storage-bytes", "0"]

KEY_BYTES_MAX = 65535
VALUE_BYTES_MAX = 1024 * 1024


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def limited(*arguments):
    """What would take all memory is ended before the machine suffers. (Sanitizers take more than any address space that one
    would allow: there, what is touched is limited.)"""
    if os.environ.get("RAMCORE_SANITIZE"):
        options = os.environ.get("ASAN_OPTIONS", "") + ":hard_rss_limit_mb=4096"
        return ["env", f"ASAN_OPTIONS={options}", *arguments]
    return ["prlimit", f"--as={8 << 30}", *arguments]


class Case:
    """One mistake: `arguments(test)` gives the command line, `cause` has to match the line on stderr. `code` is the exit
    code where docs/operating.md leaves no choice: 2 for what makes no sense whatever the cluster does."""

    def __init__(self, name, arguments, cause, remedy, stdin=None, code=None):
        self.name = name
        self.arguments = arguments
        self.cause = cause
        self.remedy = remedy
        self.stdin = stdin
        self.code = code


def rc(test, *arguments):
    return test.cluster.arguments("ramcore", *arguments)


def migrate(test, *arguments):
    return test.cluster.arguments("rcmigrate", "move", "--to", "s1", *arguments)


def coordinator(test, *arguments, storage="other-coordinator", listen="tcp://127.0.0.1:0", cluster="test"):
    return [tool("ramcore-coordinator"), "--storage", test.cluster.path(storage), "--listen", listen, "--cluster",
            cluster, "--log-level", "error", *arguments]


def server(test, *arguments, listen="tcp://127.0.0.1:0", cluster="test", memory="64MiB"):
    return [tool("ramcore-server"), "--coordinator", test.cluster.coordinator_locator(), "--listen", listen,
            "--cluster", cluster, "--memory", memory, "--log-level", "error", *VOLATILE, *arguments]


def server_with_storage(test, *arguments, storage="server-storage", size="64MiB"):
    """A server that keeps copies, as most do."""
    return [tool("ramcore-server"), "--coordinator", test.cluster.coordinator_locator(), "--cluster", "test", "--memory",
            "64MiB", "--log-level", "error", "--storage-bytes", size, "--storage", test.cluster.path(storage), *arguments]


NOWHERE = "tcp://127.0.0.1:9"
REFUSED = r"the coordinator at tcp://127\.0\.0\.1:\d+ refuses this client"
REFUSED_REMEDY = r"give both the same (file|one)"
NO_TABLE = r"table 'nowhere' does not exist"
NO_TABLE_REMEDY = r"create it first, 'ramcore list' shows those that do"
LOCATOR_REMEDY = r"tcp://|shm:///"

FLAG_CASES = [
    Case(f"unknown_flag_of_{name.replace('-', '_')}",
         lambda test, name=name, rest=rest: [tool(name), *rest, "--no-such-flag"], r"no-such-flag", r"--help", code=2)
    for name, rest in (("ramcore-coordinator", []), ("ramcore-server", []), ("ramcore", ["list"]),
                       ("rcmigrate", ["list"]), ("rcbench", []))
] + [
    Case(f"bad_coordinator_locator_of_{name.replace('-', '_')}",
         lambda test, name=name, rest=rest: [tool(name), "--coordinator", "nonsense://x", *rest], r"nonsense",
         LOCATOR_REMEDY, code=2)
    for name, rest in (("ramcore-server", []), ("ramcore", ["list"]), ("ramcore", ["put", "t", "k", "v"]),
                       ("rcmigrate", ["list"]), ("rcbench", []))
] + [
    Case(f"no_such_command_of_{name}", lambda test, name=name: [tool(name), "--coordinator", NOWHERE, "frobnicate", "x"],
         r"no command 'frobnicate'", r"--help", code=2)
    for name in ("ramcore", "rcmigrate")
] + [
    Case(f"number_out_of_range_of_{name}", lambda test, rest=rest: [tool("ramcore"), "--coordinator", NOWHERE, *rest],
         number, rf"number from {least} to {most}", code=2)
    for name, rest, number, least, most in (
        ("delta", ["increment", "t", "c", "9223372036854775808"], "9223372036854775808", -2**63, 2**63 - 1),
        ("version", ["put", "t", "k", "v", "--if-version", "18446744073709551616"], "18446744073709551616", 0, 2**64 - 1),
        ("limit", ["scan", "t", "--limit", "99999999999999999999"], "99999999999999999999", 0, 2**64 - 1))
] + [
    Case(f"too_many_tablets_for_{name}",
         lambda test, name=name, rest=rest: [tool(name), "--coordinator", NOWHERE, *rest, "--tablets", "100000000"],
         r"--tablets.*100000000", r"0 to 1024", code=2)
    for name, rest in (("ramcore", ["create", "t"]), ("rcbench", []))
] + [
    Case(f"memory_{name}",
         lambda test, memory=memory: limited(tool("ramcore-server"), "--memory", memory),
         cause, r"for example (--memory )?\d+[MG]iB", code=2)
    for name, memory, cause in (("none", "0", r"--memory 0 is too little"), ("too_little", "10MiB", r"--memory 10MiB is too"),
                                ("of_no_machine", "7TiB", r"--memory 7TiB (and about .* of index and buffers are more than .* has|is too much)"))
] + [
    Case(f"server_{name}", lambda test, size=size, rest=rest: server_with_storage(test, *rest, size=size), cause, remedy,
         code=2)
    for name, size, rest, cause, remedy in (
        ("storage_too_small", "31MiB", [], r"--storage-bytes 31MiB is too little", r"give at least 33MiB"),
        ("local_replica_without_storage", "0", ["--local-replica"], r"--local-replica needs storage",
         r"leave out --storage-bytes 0"),
        ("local_replica_and_no_replicas", "64MiB", ["--local-replica", "--replicas", "0"],
         r"--local-replica keeps one copy and --replicas 0 keeps none", r"leave out one"),
        ("wants_more_replicas_than_it_makes", "64MiB", ["--replicas", "2", "--min-replicas", "3"],
         r"--min-replicas 3 is more than --replicas 2", r"lower it"),
        ("replicas_beyond_the_limit", "64MiB", ["--replicas", "9"], r"--replicas: .*9", r"0 to 8"))
] + [
    Case(f"server_name_{what}", lambda test, name=name: server(test, "--name", name), r"--name of \d+ bytes",
         r"1 to 255 bytes", code=2)
    for what, name in (("empty", ""), ("too_long", "n" * 256), ("with_control_characters", "a\nb"),
                       ("that_is_no_utf8", b"\xff"))
] + [
    Case(f"ready_file_cannot_be_written_by_{name.replace('-', '_')}",
         lambda test, name=name, rest=rest: [tool(name), "--ready-file", "/proc/ramcore/ready", *rest],
         r"/proc/ramcore/ready", r"--ready-file")
    for name, rest in (("ramcore-coordinator", ["--storage", "/nonexistent"]), ("ramcore-server", ["--memory", "64MiB", *VOLATILE]))
] + [
    Case(f"no_coordinator_there_for_{name.replace('-', '_')}",
         lambda test, name=name, rest=rest: [tool(name), "--coordinator", NOWHERE, *rest],
         r"no coordinator answers at tcp://127\.0\.0\.1:9: connection refused", r"check that it runs and listens there")
    for name, rest in (("ramcore", ["list", "--timeout-ms", "2000"]),
                       ("rcmigrate", ["list", "--timeout-ms", "2000"]), ("rcbench", ["--timeout-ms", "2000"]))
] + [
    Case(f"wrong_cluster_name_for_{name.replace('-', '_')}",
         lambda test, name=name, rest=rest: [tool(name), "--coordinator", test.cluster.coordinator_locator(),
                                             "--cluster", "another", *rest],
         REFUSED, REFUSED_REMEDY)
    for name, rest in (("ramcore", ["list", "--timeout-ms", "2000"]),
                       ("rcmigrate", ["list", "--timeout-ms", "2000"]), ("rcbench", ["--timeout-ms", "2000"]))
] + [
    Case(f"wrong_secret_for_{name.replace('-', '_')}",
         lambda test, name=name, rest=rest: [tool(name), "--coordinator", test.secured.coordinator_locator(),
                                             "--cluster", "secured", "--secret-file", test.wrong_secret, *rest],
         REFUSED, REFUSED_REMEDY)
    for name, rest in (("ramcore", ["list", "--timeout-ms", "2000"]),
                       ("rcmigrate", ["list", "--timeout-ms", "2000"]), ("rcbench", ["--timeout-ms", "2000"]))
] + [
    Case(f"secret_file_missing_for_{name.replace('-', '_')}",
         lambda test, name=name, rest=rest: [tool(name), "--secret-file", "/nonexistent/secret", *rest],
         r"cannot read the secret file /nonexistent/secret: No such file or directory", r"give the path of the file")
    for name, rest in (("ramcore-coordinator", ["--storage", "/tmp"]), ("ramcore-server", []), ("ramcore", ["list"]),
                       ("rcmigrate", ["list"]), ("rcbench", []))
] + [
    Case(f"cluster_name_{what}_for_{name.replace('-', '_')}",
         lambda test, name=name, rest=rest, cluster=cluster: [tool(name), "--cluster", cluster, *rest],
         rf"name of the cluster has {len(cluster)} bytes", r"1 to 128")
    for what, cluster in (("too_long", "c" * 129), ("empty", ""))
    for name, rest in (("ramcore-coordinator", ["--storage", "/nonexistent"]), ("ramcore-server", []),
                       ("ramcore", ["list"]), ("rcmigrate", ["list"]), ("rcbench", []))
] + [
    Case(f"secret_too_short_for_{name.replace('-', '_')}",
         lambda test, name=name, rest=rest: [tool(name), "--secret-file", test.short_secret, *rest],
         r"short-secret holds 9 bytes", r"16 to 4096")
    for name, rest in (("ramcore-coordinator", ["--storage", "/nonexistent"]), ("ramcore-server", []),
                       ("ramcore", ["list"]), ("rcmigrate", ["list"]), ("rcbench", []))
] + [
    Case(f"secret_of_everybody_for_{name.replace('-', '_')}",
         lambda test, name=name, rest=rest: [tool(name), "--secret-file", test.open_secret, *rest],
         r"secret file .*open-secret may be read or written by others", r"chmod 600 .*open-secret", code=code)
    for name, rest, code in (("ramcore-coordinator", ["--storage", "/nonexistent"], 2), ("ramcore-server", [], 2),
                             ("ramcore", ["list"], 2), ("rcmigrate", ["list"], 2), ("rcbench", [], 2))
] + [
    Case("secret_in_a_directory_of_everybody", lambda test: server(test, "--secret-file", test.replaceable_secret),
         r"secret file .*secret can be replaced by anybody, who may write into .*everybodys", r"chmod o-w .*everybodys",
         code=2),
    Case("sessions_max_too_few", lambda test: coordinator(test, "--sessions-max", "1"), r"--sessions-max: .*1",
         r"16 - 1000000|16 to 1000000", code=2),
    Case("hardly_any_descriptor_for_a_coordinator",
         lambda test: ["prlimit", "--nofile=40", "--", *coordinator(test)], r"may open 40 files; it needs 48 at least",
         r"raise the hard limit \(ulimit -Hn", code=2),
    Case("hardly_any_descriptor_for_a_server", lambda test: ["prlimit", "--nofile=40", "--", *server(test)],
         r"may open 40 files; it needs 48 at least", r"raise the hard limit \(ulimit -Hn", code=2),
    Case("limit_of_file_sizes_below_the_storage",
         lambda test: ["prlimit", "--fsize=1000000", "--", *server_with_storage(test, storage="limited")],
         r"may write files of 1000000 bytes at most", r"raise that limit \(ulimit -f\)", code=1),
    Case("server_memory_is_no_size", lambda test: server(test, "--memory", "lots"), r"--memory: lots unit not recognized",
         r"Allowed values: \{.*mib.*see --help"),
    Case("unknown_key_in_the_configuration_file", lambda test: server(test, "--config", test.strange_config),
         r"strange\.toml.*no_such_key", r"--help|config", code=2),
    Case("configuration_file_is_no_toml", lambda test: server(test, "--config", test.no_toml), r"no\.toml.*\[\[ what",
         r"--help", code=2),
    Case("configuration_file_is_missing", lambda test: server(test, "--config", "/nonexistent/server.toml"),
         r"/nonexistent/server\.toml", r"--help", code=2),
    Case("value_in_the_configuration_file_is_no_size", lambda test: [tool("ramcore-server"), "--config", test.no_size],
         r"no-size\.toml", r"--help", code=2),
    Case("rcbench_records_do_not_fit_the_keys",
         lambda test: test.cluster.arguments("rcbench", "--key-bytes", 3, "--records", 1000), r"3 bytes",
         r"--key-bytes"),
] + [
    Case(f"rcbench_{flag[2:].replace('-', '_')}_of_{what}",
         lambda test, flag=flag, value=value: limited(tool("rcbench"), "--coordinator", NOWHERE, "--duration-s=1", flag + "=" + value),
         rf"{flag}: .*{value}", rf"number from {least}", code=2)
    for flag, least in (("--rate", "0.001"), ("--series-s", "0.001"), ("--warmup-s", "0"), ("--skew", "0.01"), ("--read-ratio", "0"))
    for what, value in (("nan", "nan"), ("infinity", "inf"), ("less_than_nothing", "-1"), ("a_word", "much"))
] + [
    Case(f"rcbench_duration_of_{what}", lambda test, value=value: limited(tool("rcbench"), "--coordinator", NOWHERE, "--duration-s=" + value),
         rf"--duration-s: .*{value}", r"number from 0.001", code=2)
    for what, value in (("nan", "nan"), ("infinity", "inf"), ("nothing", "0"))
] + [
    Case(f"rcbench_{what}", lambda test, flags=flags: limited(tool("rcbench"), "--coordinator", NOWHERE, *flags), cause, remedy, code=2)
    for what, flags, cause, remedy in (
        ("series_of_tiny_intervals", ["--series-s", "0.0000001"], r"--series-s: .*0\.0000001", r"number from 0\.001"),
        ("rate_that_is_tiny", ["--rate", "1e-300"], r"--rate: .*1e-300", r"number from 0\.001"),
        ("rate_that_nothing_reaches", ["--rate", "1e10"], r"--rate: .*1e10", r"to 1e\+09"),
        ("series_of_very_many_intervals", ["--series-s", "0.001", "--duration-s", "100000"], r"more than 1000000 intervals", r"raise it"),
        ("too_much_in_flight", ["--connections", "4096", "--outstanding", "16384"], r"67108864 operations in flight", r"lower one of them"),
        ("too_many_bytes_in_flight", ["--outstanding", "16384", "--value-bytes", "1048576"], r"may have 16\d\d\d MiB", r"lower --outstanding"))
] + [
    Case("rcbench_workload_is_none", lambda test: test.cluster.arguments("rcbench", "--workload", "Z"), r"Z", r"--help"),
    Case("rcmigrate_move_of_nothing", migrate, r"needs the numbers of tablets, or --table", r"--help", code=2),
    Case("rcmigrate_move_of_a_tablet_and_a_table", lambda test: migrate(test, 1, "--table", "present"),
         r"needs the numbers of tablets, or --table, and not both", r"--help", code=2),
    Case("rcmigrate_move_of_a_part_of_a_tablet", lambda test: migrate(test, 1, "--fraction", "0.5"),
         r"--fraction", r"are for a part of a --table", code=2),
    *(Case(f"rcmigrate_move_of_a_fraction_{name}", lambda test, value=value: migrate(test, "--table", "present", f"--fraction={value}"),
           r"--fraction", r"above 0 and at most 1|--help", code=2)
      for name, value in (("too_large", "1.5"), ("of_nothing", "0"), ("below_nothing", "-0.5"), ("without_value", "nan"), ("in_words", "half"))),
    *(Case(f"rcmigrate_move_of_a_range_{name}", lambda test, value=value: migrate(test, "--table", "present", "--range", value),
           r"is no range of key hashes", r"write it as 0x", code=2)
      for name, value in (("backwards", "0x5-0x1"), ("outside", "0x0-0x10000000000000000"), ("of_one_hash", "0x5"), ("in_words", "all"))),
    *(Case(f"rcmigrate_move_with_an_empty_{name}", lambda test, name=name: migrate(test, "--table", "present", f"--{name}", ""),
           rf"--{name} has no value", r"give one, or leave it out", code=2) for name in ("range", "from")),
    Case("rcmigrate_move_without_rate", lambda test: migrate(test, "--table", "present", "--max-rate", "0"),
         r"a rate of 0 would never end", r"give bytes a second", code=2),
    Case("rcmigrate_rate_of_nothing", lambda test: test.cluster.arguments("rcmigrate", "rate", 1, "0"),
         r"a rate of 0 would never end", r"'cancel' the move", code=2),
    Case("rcmigrate_move_to_the_same_server", lambda test: migrate(test, "--table", "present", "--from", "s1"),
         r"--from and --to are the same server", r"name another one", code=2),
    Case("rcmigrate_plan_by_something_else", lambda test: test.cluster.arguments("rcmigrate", "plan", "--by", "colour"),
         r"--by", r"bytes", code=2),
    Case("rcmigrate_without_a_command", lambda test: test.cluster.arguments("rcmigrate"), r"subcommand", r"--help"),
]

# What is wanted of adapters that are not there, or do not exist.
NO_DEVICE = r"this machine has no RDMA device|there is no RDMA device 'nosuch'"
NO_DEVICE_REMEDY = r"ibv_devices lists|ibv_devinfo tells"
MEMIF = "net_memif0,role=server,id=0,socket-abstract=no,socket=/nonexistent/memif"
ADAPTER_CASES = [
    Case("rdma_device_is_not_there", lambda test: server(test, "--rdma-device", "nosuch"), NO_DEVICE, NO_DEVICE_REMEDY,
         code=2),
    Case("rdma_device_is_not_there_for_the_coordinator", lambda test: coordinator(test, "--rdma-device", "nosuch"),
         NO_DEVICE, NO_DEVICE_REMEDY, code=2),
    Case("rdma_device_is_not_there_for_a_tool",
         lambda test: [tool("ramcore"), "--coordinator", NOWHERE, "--rdma-device", "nosuch", "list"], NO_DEVICE,
         NO_DEVICE_REMEDY, code=2),
    Case("rdma_device_is_none", lambda test: server(test, "--rdma-device", "rxe0:x"), r"'rxe0:x' chooses no RDMA device",
         r"write its name, or name:port", code=2),
    Case("verbs_locator_of_a_device_that_is_not_there",
         lambda test: server(test, listen="verbs://127.0.0.1:0?device=nosuch"), NO_DEVICE, NO_DEVICE_REMEDY, code=2),
    Case("verbs_locator_with_a_strange_option", lambda test: server(test, listen="verbs://127.0.0.1:0?lane=1"),
         r"'lane=1' means nothing", r"device=NAME, port=NUMBER and gid=NUMBER", code=2),
    Case("dpdk_port_is_not_there", lambda test: server(test, "--dpdk-port", "net_nothing0"),
         r"DPDK gives no port 'net_nothing0'", r"check its name and arguments", code=2),
    Case("dpdk_port_does_not_copy", lambda test: server(test, "--dpdk-port", MEMIF + ",zero-copy=yes"),
         r"zero-copy=yes sends wrong bytes", r"leave it out", code=2),
    Case("dpdk_address_is_of_many", lambda test: server(test, "--dpdk-port", "net_null0", "--dpdk-address",
                                                        "01:00:00:00:00:01"),
         r"'01:00:00:00:00:01' is no address of a port", r"whose first byte is even", code=2),
    Case("dpdk_faults_are_none", lambda test: server(test, "--dpdk-port", "net_null0", "--dpdk-faults", "loss=200"),
         r"bad faults 'loss=200'", r"write e\.g\. loss=5", code=2),
    Case("dpdk_memory_is_too_small", lambda test: server(test, "--dpdk-port", "net_null0", "--dpdk-memory-mb", "32",
                                                         "--dpdk-mtu", "9000"),
         r"DPDK has no memory for 8192 frames of 9014 bytes", r"raise --dpdk-memory-mb"),
    Case("dpdk_locator_without_a_port", lambda test: [tool("ramcore"), "--coordinator", "dpdk://02:00:00:00:00:01@1",
                                                      "list"],
         r"no transport for dpdk://", r"name one with --dpdk-port", code=2),
    Case("dpdk_listens_for_others_without_a_secret",
         lambda test: server(test, "--dpdk-port", "net_null0", listen="dpdk://any@1"),
         r"will not listen at dpdk://any@1 without a cluster secret", r"give --secret-file"),
]

CLUSTER_CASES = [
    Case("get_of_a_table_that_does_not_exist", lambda test: rc(test, "get", "nowhere", "k"), NO_TABLE, NO_TABLE_REMEDY),
    Case("put_to_a_table_that_does_not_exist", lambda test: rc(test, "put", "nowhere", "k", "v"), NO_TABLE,
         NO_TABLE_REMEDY),
    Case("export_of_a_table_that_does_not_exist", lambda test: rc(test, "export", "nowhere"), NO_TABLE,
         NO_TABLE_REMEDY),
    Case("drop_of_a_table_that_does_not_exist", lambda test: rc(test, "drop", "nowhere"), NO_TABLE,
         NO_TABLE_REMEDY),
    Case("create_of_a_table_that_exists", lambda test: rc(test, "create", "present"), r"table 'present' exists already",
         r"use it, or drop it first"),
    Case("rcmigrate_list_of_a_table_that_does_not_exist",
         lambda test: test.cluster.arguments("rcmigrate", "list", "nowhere"), NO_TABLE, NO_TABLE_REMEDY),
    Case("rcmigrate_move_of_a_tablet_that_does_not_exist",
         lambda test: test.cluster.arguments("rcmigrate", "move", 123456, "--to", "s1"), r"123456", r"list"),
    Case("rcmigrate_move_to_a_server_that_does_not_exist",
         lambda test: test.cluster.arguments("rcmigrate", "move", test.cluster.tablets("present")[0]["tablet"], "--to",
                                             "s77"), r"s77", r"there are"),
    Case("rcmigrate_status_of_no_migration", lambda test: test.cluster.arguments("rcmigrate", "status", 123456),
         r"migration 123456 is not known", r"'rcmigrate status' shows the moves"),
    Case("rcmigrate_rate_of_no_migration", lambda test: test.cluster.arguments("rcmigrate", "rate", 123456, "1MiB"),
         r"migration 123456 is not known", r"'rcmigrate status' shows the moves"),
    Case("rcmigrate_cancel_of_no_migration", lambda test: test.cluster.arguments("rcmigrate", "cancel", 123456),
         r"migration 123456 is not known", r"'rcmigrate status' shows the moves"),
    Case("rcmigrate_move_of_no_table", lambda test: migrate(test, "--table", "nowhere"), r"there is no table 'nowhere'",
         r"'rcmigrate list' shows the tables", code=1),
    Case("rcmigrate_move_from_a_server_that_does_not_exist",
         lambda test: migrate(test, "--table", "present", "--from", "s77"), r"s77", r"there are"),
    Case("rcmigrate_drain_of_a_server_that_does_not_exist", lambda test: test.cluster.arguments("rcmigrate", "drain", "s77"),
         r"s77", r"there are"),
    Case("rcmigrate_split_of_no_tablet", lambda test: test.cluster.arguments("rcmigrate", "split", "--tablet", 123456),
         r"123456", r"list"),
    Case("rcmigrate_split_at_no_hash", lambda test: test.cluster.arguments("rcmigrate", "split", "present", "--at", "middle"),
         r"'middle' is no key hash", r"write it as 0x", code=2),
    Case("key_too_long", lambda test: rc(test, "put", "present", "k" * (KEY_BYTES_MAX + 1), "v"), r"object 'k+' of table 'present': keys have up to 65535 bytes", r"make it smaller"),
    Case("key_empty", lambda test: rc(test, "put", "present", "", "v"), r"object '' of table 'present': makes no sense",
         r"keys have at least 1 byte and at most 65535"),
    Case("value_too_long", lambda test: rc(test, "import", "--quiet", "present", test.long_value),
         r"table 'present', 1 objects not written \(.*/long.ndjson line 1\): too long",
         r"keys have at most 65535 bytes and values at most 1048576"),
    Case("import_of_a_file_that_does_not_exist", lambda test: rc(test, "import", "--quiet", "present", "/nonexistent/file"),
         r"cannot open /nonexistent/file: No such file or directory", r"give a readable file, or - for stdin"),
    Case("import_of_a_directory", lambda test: rc(test, "import", "--quiet", "present", "/tmp"), r"/tmp line 1.*directory",
         r"readable file"),
    # Its first page cannot be read: EIO, after the file was opened.
    Case("import_of_a_file_that_cannot_be_read", lambda test: rc(test, "import", "--quiet", "present", "/proc/self/mem"),
         r"cannot read /proc/self/mem line 1", r"readable file"),
    Case("import_of_a_line_without_end", lambda test: rc(test, "import", "--quiet", "present", "/dev/zero"),
         r"/dev/zero line 1 is longer", r"NDJSON"),
    Case("import_of_lines_that_are_not_json", lambda test: rc(test, "import", "--quiet", "present", test.not_json), r"not-json line 1: not a JSON object",
         r'a line is \{"key":\.\.\.,"value":\.\.\.\}'),
] + [
    Case(f"import_of_{name}", lambda test, lines=lines: rc(test, "import", "--quiet", "present", "-"), cause, remedy,
         stdin="".join(line + "\n" for line in lines))
    for name, lines, cause, remedy in (
        # Lines are counted as an editor counts them, blank ones too.
        ("a_member_that_comes_twice", ['{"key":"a","value":"1"}', "", " \t", "\r", '{"key":"b","value":"1","key":"c"}'],
         r'stdin line 5: member "key" is there twice', r"a line is"),
        ("a_value_that_comes_twice", ['{"value":"1","key":"a","value":"1"}'], r'stdin line 1: member "value" is there twice', r"a line is"),
        ("a_version_that_comes_twice", ['{"key":"a","value":"1","version":1,"version":1}'], r'stdin line 1: member "version" is there twice', r"a line is"),
        ("a_member_that_nobody_knows", ["\r", '{"key":"a","value":"1","ttl\\n\\u0007":5}'], r'stdin line 2: unknown member "ttl\\n\\u0007"', r"a line is"),
        ("a_line_that_breaks_off", [""] * 700 + ['{"key":"a",'], r"stdin line 701: not a JSON object", r"a line is"),
        ("an_empty_key_among_good_ones",
         [json.dumps({"key": f"k{i}", "value": "v"}) for i in range(5)] + ['\r', '{"key":"","value":"v"}'] +
         [json.dumps({"key": f"l{i}", "value": "v"}) for i in range(2000)],
         r"1 objects not written \(stdin line 7\): makes no sense", r"keys have at least 1 byte"))
] + [
    Case("increment_of_a_value_that_is_no_integer", lambda test: rc(test, "increment", "present", "text", 1),
         r"object 'text' of table 'present' is no counter: its value is not 8 bytes long", r"use put"),
]

DAEMON_CASES = [
    Case("coordinator_port_in_use", lambda test: coordinator(test, listen=f"tcp://127.0.0.1:{test.used_port}"),
         r"another process uses the port", r"choose another|stop it"),
    Case("server_port_in_use", lambda test: server(test, listen=f"tcp://127.0.0.1:{test.used_port}"),
         r"another process uses the port", r"choose another|stop it"),
    Case("server_listens_at_no_locator", lambda test: server(test, listen="tcp:/wrong"), r"tcp:/wrong", LOCATOR_REMEDY,
         code=2),
    Case("coordinator_listens_at_no_locator", lambda test: coordinator(test, listen="tcp:/wrong"), r"tcp:/wrong",
         LOCATOR_REMEDY, code=2),
    Case("coordinator_without_secret_listens_to_the_network",
         lambda test: coordinator(test, listen="tcp://0.0.0.0:0"), r"will not listen at tcp://0\.0\.0\.0:0 without a cluster secret",
         r"give --secret-file, or listen at 127\.0\.0\.1"),
    Case("storage_is_a_file", lambda test: coordinator(test, storage="a-file"), r"a-file.*not a directory",
         r"--storage"),
    Case("storage_is_not_writable", lambda test: coordinator(test, storage="a-file/below"), r"a-file/below",
         r"--storage"),
    # No mode keeps root from writing; this file system does.
    Case("storage_in_a_read_only_place", lambda test: coordinator(test, storage="/proc/ramcore"), r"/proc/ramcore",
         r"--storage"),
    Case("storage_belongs_to_another_cluster", lambda test: coordinator(test, storage="spare", cluster="another"),
         r"belongs to cluster 'test'", r"--cluster"),
    Case("storage_in_use_by_another_coordinator", lambda test: coordinator(test, storage="coordinator"), r"another coordinator uses '.*/coordinator'",
         r"stop it, or name another --storage"),
    Case("storage_of_a_newer_format", lambda test: coordinator(test, storage="newer"), r"format 99",
         r"version of Ramcore"),
    Case("storage_of_an_older_format", lambda test: coordinator(test, storage="older"), r"format 0",
         r"version of Ramcore"),
    Case("storage_is_damaged", lambda test: coordinator(test, storage="damaged"), r"damaged/coordinator\.sqlite' is damaged or no coordinator's file",
         r"put the newest copy of it into an empty directory"),
    Case("server_storage_is_a_file", lambda test: server_with_storage(test, storage="a-file"),
         r"--storage .*/a-file: Not a directory", r"name a directory that can be written"),
    Case("server_storage_in_a_read_only_place",
         lambda test: server_with_storage(test, storage="/proc/ramcore"), r"/proc/ramcore",
         r"name a directory that can be written"),
    Case("server_storage_in_use", lambda test: server_with_storage(test, storage="used-storage"),
         r"used-storage belongs to a running process", r"stop that first, or name another --storage"),
    # No disk of a test has so much, and the file system says so before it takes any of it.
    Case("server_storage_does_not_fit", lambda test: server_with_storage(test, storage="full-storage", size="8PiB"),
         r"no space for \d+ bytes in the directory .*full-storage", r"smaller --storage-bytes, or another --storage"),
    Case("server_storage_of_a_newer_format", lambda test: server_with_storage(test, storage="newer-frames"),
         r"format 99, this is \d+", r"use that version, or an empty data directory"),
    Case("server_storage_is_damaged", lambda test: server_with_storage(test, storage="damaged-frames"),
         r"frame file of the data directory is damaged", r"give the server an empty data directory"),
    Case("server_storage_of_another_cluster", lambda test: server_with_storage(test, storage="foreign-frames"),
         r"storage of this server belongs to another cluster", r"check --coordinator, or give an empty --storage"),
    # The coordinator takes 16 locators.
    Case("server_that_the_coordinator_cannot_make_sense_of",
         lambda test: server(test, *(["--listen", "tcp://127.0.0.1:0"] * 17)), r"cannot make sense of this server",
         r"name and the locators"),
    Case("server_of_another_cluster", lambda test: server(test, cluster="another"),
         r"the coordinator at \S+ refuses this server: the peer belongs to a cluster of another name", r"give both the same one"),
    Case("server_with_a_wrong_secret",
         lambda test: [tool("ramcore-server"), "--coordinator", test.secured.coordinator_locator(), "--cluster",
                       "secured", "--secret-file", test.wrong_secret, "--memory", "64MiB", "--log-level", "error", *VOLATILE],
         r"the coordinator at \S+ refuses this server: wrong cluster secret", r"give both the same file"),
]


class BadInputTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(servers=1)
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.secured = Cluster(servers=0, name="secured", secret="the right secret of this cluster")
        cls.secured.__enter__()
        cls.addClassCleanup(cls.secured.__exit__, None, None, None)
        cls.cluster.rc("create", "present")
        cls.cluster.rc("put", "present", "text", "no integer")
        cls.used = socket.create_server(("127.0.0.1", 0))
        cls.addClassCleanup(cls.used.close)
        cls.used_port = cls.used.getsockname()[1]
        cls.wrong_secret = cls.write("wrong-secret", "some other secret altogether\n")
        cls.short_secret = cls.write("short-secret", "too short\n")
        cls.open_secret = cls.write("open-secret", "a secret that everybody may read\n")
        for secret in (cls.wrong_secret, cls.short_secret):
            os.chmod(secret, 0o600)
        os.chmod(cls.open_secret, 0o644)
        os.mkdir(cls.cluster.path("everybodys"))
        os.chmod(cls.cluster.path("everybodys"), 0o777)
        cls.replaceable_secret = cls.write("everybodys/secret", "a secret in a bad place\n")
        os.chmod(cls.replaceable_secret, 0o600)
        cls.strange_config = cls.write("strange.toml", "no_such_key = 1\n")
        cls.no_toml = cls.write("no.toml", "[[ what\n")
        cls.no_size = cls.write("no-size.toml", 'memory = "lots"\n')
        cls.not_json = cls.write("not-json", "key=value\n")
        cls.long_value = cls.write("long.ndjson", '{"key":"k","value":"%s"}\n' % ("v" * (VALUE_BYTES_MAX + 1)))
        cls.write("a-file", "")
        cls.make_storages()
        cls.make_frame_files()

    @classmethod
    def make_frame_files(cls):
        """Storage directories of real servers: one that is in use, one of another cluster of the same name, and copies
        of it that were changed from outside."""
        cls.using = Daemon("using", server_with_storage(cls, "--replicas", "0", storage="used-storage"),
                           cls.cluster.path("using.log"))
        cls.addClassCleanup(cls.using.stop)
        cls.using.wait_ready()
        stranger = Daemon("stranger", coordinator(cls, storage="stranger"), cls.cluster.path("stranger.log"))
        stranger.wait_ready()
        # Its ids are those of the cluster above.
        of_it = server_with_storage(cls, "--replicas", "0", storage="foreign-frames")
        of_it[of_it.index("--coordinator") + 1] = stranger.locators[0]
        foreign = Daemon("foreign", of_it, cls.cluster.path("foreign.log"))
        foreign.wait_ready()
        assert foreign.stop() == 0
        assert stranger.stop() == 0
        for name in ("newer-frames", "damaged-frames"):
            shutil.copytree(cls.cluster.path("foreign-frames"), cls.cluster.path(name))
            with open(os.path.join(cls.cluster.path(name), "frames"), "r+b") as file:
                for block in (0, 4096):  # both superblocks, docs/formats.md
                    file.seek(block)
                    superblock = file.read(64)
                    changed = superblock[:8] + (99).to_bytes(4, "little") + superblock[12:60]
                    file.seek(block)
                    file.write(changed + (crc32c(changed).to_bytes(4, "little") if name == "newer-frames" else b"no"))

    @classmethod
    def write(cls, name, content):
        path = cls.cluster.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return path

    @classmethod
    def make_storages(cls):
        """Storage directories of real coordinators, changed from outside."""
        for name in ("spare", "newer", "older", "damaged"):
            daemon = Daemon(name, coordinator(cls, storage=name), cls.cluster.path(name + ".log"))
            daemon.wait_ready()
            assert daemon.stop() == 0
        for name, version in (("newer", b"99"), ("older", b"0")):
            database = sqlite3.connect(cls.storage_file(name))
            changed = database.execute("UPDATE state SET value = ? WHERE key = ?", (version, b"!format")).rowcount
            assert changed == 1, "the format is kept under another name now"
            database.commit()
            database.close()
        with open(cls.storage_file("damaged"), "wb") as file:
            file.write(b"no database at all, and long enough to be looked at" * 100)

    @classmethod
    def storage_file(cls, name):
        return os.path.join(cls.cluster.path(name), "coordinator.sqlite")

    def expect(self, case):
        arguments = [os.fsencode(argument) for argument in case.arguments(self)]
        done = subprocess.run(arguments, input=case.stdin, stdin=None if case.stdin else subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)
        said = f"{b' '.join(a[:80] for a in arguments)}\nexit code {done.returncode}, stderr:\n{done.stderr}"
        self.assertGreater(done.returncode, 0, said)  # negative: a signal
        if case.code is not None:
            self.assertEqual(done.returncode, case.code, said)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, "one line wanted; " + said)
        self.assertRegex(lines[0], case.cause, said)
        self.assertRegex(lines[0], case.remedy, said)
        self.assertNotRegex(lines[0], re.compile(r"terminate called|exception|assert", re.I), said)

    def test_the_cluster_is_fine_afterwards(self):
        self.cluster.rc("put", "present", "k", "v")
        self.assertIn("v", self.cluster.rc("get", "present", "k"))
        self.assertTrue(self.cluster.coordinator.is_running())

    def test_a_server_without_coordinator_says_so_and_keeps_trying(self):
        server = subprocess.Popen([tool("ramcore-server"), "--coordinator", NOWHERE, "--memory", "64MiB", "--log-level",
                                   "warning", *VOLATILE], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            self.assertIn("survives", server.stderr.readline())
            line = server.stderr.readline()
            self.assertRegex(line, r"cannot enlist, trying on: no coordinator answers at tcp://127\.0\.0\.1:9: connection refused; check that it runs")
            self.assertIsNone(server.poll())
        finally:
            server.terminate()
            rest = server.communicate(timeout=60)[1]
        self.assertEqual(server.returncode, 0, rest)

    def test_memory_is_rounded_down_to_what_the_log_hands_out(self):
        odd = Daemon("odd", server(self, "--name", "odd", memory=str((64 << 20) + 12345)), self.cluster.path("odd.log"))
        try:
            odd.wait_ready()
            status = json.loads(self.cluster.rc("status", "--json"))
            self.assertEqual([s["memory_bytes"] for s in status["servers"] if s["name"] == "odd"], [64 << 20])
        finally:
            self.assertEqual(odd.stop(), 0, odd.log())

    def test_flags_beat_the_environment_which_beats_the_file(self):
        file = self.write("precedence.toml", 'coordinator = "tcp://127.0.0.1:1"\n')
        environment = {**os.environ, "RAMCORE_COORDINATOR": "tcp://127.0.0.1:2"}
        common = [tool("ramcore"), "--config", file, "--timeout-ms", "500", "list"]
        for port, arguments, env in ((1, common, None), (2, common, environment),
                                     (3, common + ["--coordinator", "tcp://127.0.0.1:3"], environment)):
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False, env=env)
            self.assertIn(f"tcp://127.0.0.1:{port}: ", done.stderr)

    def test_get_of_a_key_that_does_not_exist(self):
        """Not a mistake, but not a success either: a script can tell."""
        done = self.cluster.run("ramcore", "get", "present", "absent", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")

    def test_limits_themselves_are_fine(self):
        key = "k" * KEY_BYTES_MAX
        path = self.write("limits.ndjson", '{"key":"%s","value":"%s"}\n' % (key, "v" * VALUE_BYTES_MAX))
        self.cluster.rc("create", "limits")
        self.cluster.rc("import", "limits", path)
        self.assertEqual(self.cluster.export("limits")[key][0], "v" * VALUE_BYTES_MAX)
        self.cluster.rc("drop", "limits")

    def test_help_and_version_are_no_mistakes(self):
        for name in ("ramcore-coordinator", "ramcore-server", "ramcore", "rcmigrate", "rcbench"):
            self.assertIn("--coordinator" if name != "ramcore-coordinator" else "--listen",
                          run([tool(name), "--help"]).stdout)
            self.assertRegex(run([tool(name), "--version"]).stdout, r"\d+\.\d+\.\d+.*format")


for case in FLAG_CASES + ADAPTER_CASES + CLUSTER_CASES + DAEMON_CASES:
    setattr(BadInputTest, "test_" + case.name, lambda self, case=case: self.expect(case))

if __name__ == "__main__":
    unittest.main(verbosity=2)
