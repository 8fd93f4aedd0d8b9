"""Who owns what, as a coordinator's directory says. Written from docs/formats.md and src/wire/state.proto (a disk format)."""

import os
import shutil
import sqlite3
import tempfile

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def fields(data):
    """(number, value) of each field of a protobuf message; values as integers, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(data) or shift > 63:
                raise ValueError("a message of the coordinator's state is cut off")
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            yield number, varint()
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            yield number, int.from_bytes(data[at:at + size], "little")
            at += size
        elif kind == BYTES:
            size = varint()
            yield number, data[at:at + size]
            at += size
            if at > len(data):
                raise ValueError("a message of the coordinator's state is cut off")
        else:
            raise ValueError(f"a field of kind {kind}")


def messages(directory, prefix):
    """The messages under keys that begin with `prefix`."""
    # Of a copy: whoever opens it may have to bring to an end what a killed process has begun.
    with tempfile.TemporaryDirectory() as copy:
        for name in os.listdir(directory):
            if name.startswith("coordinator.sqlite"):
                shutil.copy(os.path.join(directory, name), copy)
        with sqlite3.connect(os.path.join(copy, "coordinator.sqlite")) as store:
            rows = store.execute("SELECT key, value FROM state").fetchall()
        store.close()
    return [value for key, value in rows if bytes(key).startswith(prefix)]


def records(directory, prefix):
    """The messages under keys that begin with `prefix`, each as {field: last value}."""
    return [dict(fields(message)) for message in messages(directory, prefix)]


def owners(directory):
    """What disk_judge wants to know of each owner of tablets, and besides:
    `keeps`: its log has copies; `given_up`: an operator has accepted that something of it is lost; `is_stored`: there is a record
    of the server, which both of these and the floor are from."""
    is_sync = {table.get(1, 0): table.get(8, 0) == 1 for table in records(directory, b"table/")}
    servers = {server[1]: server for server in records(directory, b"server/")}
    found = {}
    for tablet in records(directory, b"tablet/"):
        server = servers.get(tablet.get(8, 0), {})
        if 9 not in tablet:
            continue
        log = dict(fields(tablet[9]))
        owner = found.setdefault(tablet[8], {
            "server": tablet[8], "floor": [server.get(10, 0), server.get(11, 0)], "all_sync": True, "tablets": [],
            "keeps": bool(server.get(19, 0) or server.get(21, 0)), "given_up": server.get(15, 0) != 0, "is_stored": bool(server)})
        owner["all_sync"] = owner["all_sync"] and is_sync.get(tablet.get(2, 0), False)
        owner["tablets"].append({"table": tablet.get(2, 0), "first_hash": tablet.get(3, 0), "last_hash": tablet.get(4, 0),
                                 "first_segment": log.get(2, 0)})
    return list(found.values())


def logs_of_tablets(directory):
    """{tablet: [the servers in whose logs its contents are]}."""
    found = {}
    for message in messages(directory, b"tablet/"):
        logs = [dict(fields(value)) for number, value in fields(message) if number == 9]
        found[dict(fields(message))[1]] = [log.get(1, 0) for log in logs]
    return found


def table_id(directory, name):
    """Of the table of that name, or None."""
    return next((table[1] for table in records(directory, b"table/") if table.get(2) == name.encode()), None)


__all__ = ["logs_of_tablets", "owners", "table_id"]
