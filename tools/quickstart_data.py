#!/usr/bin/env python3
"""The data of tools/quickstart: Debian's package records as one JSON object per line, and checksums of such lines.

Usage: quickstart_data.py convert < RECORDS > NDJSON    package records (apt-cache dumpavail, /var/lib/dpkg/status)
       quickstart_data.py digest < NDJSON               count, bytes and one checksum that does not depend on the order
"""

import hashlib
import json
import sys


def records(stream):
    """Yields each paragraph of a Debian control file as bytes."""
    lines = []
    for line in stream:
        if line == b"\n":
            if lines:
                yield b"".join(lines)
            lines = []
        else:
            lines.append(line)
    if lines:
        yield b"".join(lines)


def field(record, name):
    for line in record.split(b"\n"):
        if line.startswith(name + b": "):
            return line[len(name) + 2:].decode("utf-8", "replace")
    return ""


def convert():
    """One object per package: the key is name, version and architecture, the value the whole record."""
    seen = set()
    for record in records(sys.stdin.buffer):
        key = " ".join(field(record, name) for name in (b"Package", b"Version", b"Architecture"))
        if key in seen:  # the same package from two archives
            continue
        seen.add(key)
        value = record.decode("utf-8", "replace")
        sys.stdout.write(json.dumps({"key": key, "value": value}, ensure_ascii=False) + "\n")


def digest():
    """Prints count, bytes and a SHA-256 over the checksums of all objects, sorted by key. A key that comes twice is an
    error: nothing may be returned twice."""
    sums = {}
    total_bytes = 0
    for number, line in enumerate(sys.stdin, 1):
        item = json.loads(line)
        key, value = item.get("key", item.get("key64")), item.get("value", item.get("value64"))
        if key is None or value is None:
            sys.exit(f"line {number} has no key or no value")
        if key in sums:
            sys.exit(f"key comes twice: {key}")
        data = value.encode()
        total_bytes += len(data)
        sums[key] = hashlib.sha256(data).digest()
    whole = hashlib.sha256()
    for key in sorted(sums):
        whole.update(key.encode() + b"\0" + sums[key])
    print(len(sums), total_bytes, whole.hexdigest())


if __name__ == "__main__":
    commands = {"convert": convert, "digest": digest}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8")  # whatever the locale says
    commands[sys.argv[1]]()
