"""Writes directories as a cluster of real processes leaves them, for tests: the coordinator's state, and files of frames."""

import json
import os
import sqlite3

import frame_writer as writer

SERVER, TABLE, LAST_HASH = 9, 1, 2**64 - 1
# One segment with these objects is the whole log.
OBJECTS = {"a": ("of a", 1), "b": ("of b", 2)}


def varint(value):
    data = b""
    while value > 0x7f:
        data += bytes([value & 0x7f | 0x80])
        value >>= 7
    return data + bytes([value])


def message(*fields):
    """Of (number, value): a number as a varint, (number,) as a fixed64, bytes as they are. What is zero is left out, as ever."""
    data = b""
    for number, value in fields:
        if isinstance(value, bytes):
            data += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, tuple):
            data += varint(number << 3 | 1) + value[0].to_bytes(8, "little")
        elif value:
            data += varint(number << 3) + varint(value)
    return data


def server(replicas=2, loss_token=0):
    return message((1, (SERVER,)), (15, (loss_token,)), (19, replicas))


def table(name="t", number=TABLE):
    return message((1, number), (2, name.encode()))


def tablet(number=1, table_id=TABLE, first=0, last=LAST_HASH, owner=SERVER, has_log=True):
    log = [(9, message((1, (owner,)), (2, 1)))] if has_log else []
    return message((1, number), (2, table_id), (3, (first,)), (4, (last,)), (8, (owner,)), *log)


def write_state(directory, state):
    """`state`: {key: message}."""
    os.makedirs(os.path.join(directory, "coordinator"), exist_ok=True)
    path = os.path.join(directory, "coordinator", "coordinator.sqlite")
    if os.path.exists(path):
        os.remove(path)
    store = sqlite3.connect(path)
    store.execute("CREATE TABLE state (key BLOB PRIMARY KEY, value BLOB)")
    store.executemany("INSERT INTO state VALUES (?, ?)", [(key.encode(), value) for key, value in state.items()])
    store.commit()
    store.close()


def write_cluster(directory, objects=None, **changed):
    """A whole one, of one server and its two backups. `changed`: records of the coordinator in place of the right ones."""
    state = {"server/9": changed.get("server", server()), "table/1": changed.get("table", table()),
             "tablet/1": changed.get("tablet", tablet())}
    write_state(directory, {key: value for key, value in state.items() if value is not None})
    found = OBJECTS if objects is None else objects
    entries = [writer.put(key.encode(), version, value.encode()) for key, (value, version) in found.items()]
    log = writer.segment(SERVER, 1, entries, members=[1])
    for name in ("s1", "s2"):
        os.makedirs(os.path.join(directory, name), exist_ok=True)
        with open(os.path.join(directory, name, "frames"), "wb") as file:
            file.write(writer.file_of([writer.replica(SERVER, 1, log)]))


def write_export(path, objects=None):
    """As `ramcore export` gives it."""
    with open(path, "w", encoding="utf-8") as file:
        for key, (value, version) in (OBJECTS if objects is None else objects).items():
            file.write(json.dumps({"key": key, "value": value, "version": version}) + "\n")
    return path
