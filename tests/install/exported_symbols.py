#!/usr/bin/env python3
"""What a library lets out: the public functions of include/ramcore, each of them, and nothing else.

Usage: exported_symbols.py LIBRARY HEADERS    (.so or .a; the folder of the installed headers)"""

import re
import subprocess
import sys

# Members and free functions; a type inside a class (its name begins with a capital letter) is none of them.
PUBLIC = re.compile(r"^ramcore::(name|detail::resultMisused|Client::(Client|[a-z~]\w*)|Scan::(Scan|~Scan|[a-z]\w*)|"
                    r"Future<.*>::(Future|~Future|[a-z][\w ]*)|Client::~Client)\(|^ramcore::\w+::operator=\(|"
                    r"^ramcore::Future<.*>::operator[ =]")


def exported(library):
    flags = ["-D"] if ".so" in library else ["--extern-only"]
    out = subprocess.run(["nm", *flags, "--defined-only", "--demangle", library], check=True, capture_output=True, text=True).stdout
    names = [line.split(" ", 2)[2].split("@@")[0] for line in out.splitlines() if len(line.split(" ", 2)) == 3]
    return sorted({name for name in names if not re.fullmatch(r"RAMCORE_\d+", name)})


def declared(headers):
    """Names of the functions of Client that give a value."""
    with open(f"{headers}/ramcore/client.h", encoding="utf-8") as file:
        text = file.read()
    body = text[text.index("class Client {"):]
    return set(re.findall(r"^  (?:static )?[\w:<>]+ (\w+)\(", body, flags=re.M))


def main():
    library, headers = sys.argv[1:]
    names = exported(library)
    strange = [name for name in names if not PUBLIC.match(name)]
    if strange:
        print(f"{library} lets out {len(strange)} symbols that are not public, among them {strange[0]}")
        return 1
    wanted = declared(headers)
    missing = sorted(name for name in wanted if not any(f"::{name}(" in known for known in names))
    if missing or len(wanted) < 15:
        print(f"{library} lacks {missing} of {len(wanted)} functions")
        return 1
    print(f"{library.rsplit('/', 1)[-1]}: {len(names)} symbols, all public")
    return 0


if __name__ == "__main__":
    sys.exit(main())
