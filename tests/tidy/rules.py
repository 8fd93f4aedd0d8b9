"""The rules: each is a function that takes the tree and gives the faults it finds."""

import collections
import re
from typing import NamedTuple

from sources import shown

FUNCTION_LINES_MAX = 60
SOURCE_LINES_MAX = 500
HEADER_LINES_MAX = 300
CLASS_FUNCTIONS_MAX = 45
CLASS_MEMBERS_MAX = 35

# Functions that the language or a library calls without a source of ours that names them.
CALLED_FROM_OUTSIDE = frozenset((
    "main", "begin", "end", "lock", "unlock", "try_lock", "allocate", "deallocate",
    # coroutines
    "get_return_object", "initial_suspend", "final_suspend", "unhandled_exception", "return_void", "return_value",
    "yield_value", "await_transform", "await_ready", "await_suspend", "await_resume",
    # nlohmann::json_sax
    "null", "boolean", "number_integer", "number_unsigned", "number_float", "string", "binary", "start_object", "key",
    "end_object", "start_array", "end_array", "parse_error"))
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


class Fault(NamedTuple):
    path: str
    line: int
    rule: str
    subject: str  # what an exception names
    what: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


class Class:
    """A class with what is declared in it and the definitions of its member functions outside."""

    def __init__(self, declaration):
        self.declaration = declaration
        self.functions = []
        self.members = []
        self.defined_outside = []

    def contains(self, other):
        own = self.declaration
        return own.path == other.path and own.line <= other.line <= own.end


def classes_of(tree):
    by_name = collections.defaultdict(list)
    for one in tree.declarations:
        if one.kind == "class":
            by_name[one.qualified].append(Class(one))
    for one in tree.declarations:
        candidates = by_name.get(one.scope, ())
        if one.kind == "class" or not candidates:
            continue
        inside = [candidate for candidate in candidates if candidate.contains(one)]
        if inside:
            (inside[0].members if one.kind == "member" else inside[0].functions).append(one)
        elif one.kind != "member":
            # Two programs may have classes of the same name, each in its own source.
            same_file = [candidate for candidate in candidates if candidate.declaration.path == one.path]
            (same_file or candidates)[0].defined_outside.append(one)
    return [one for group in by_name.values() for one in group]


def split_class(tree):
    for one in classes_of(tree):
        definitions = [function for function in one.functions if function.kind == "function"] + one.defined_outside
        sources = sorted({function.path for function in definitions if function.path.endswith(".cc")})
        if len(sources) > 1:
            own = one.declaration
            name = shown(own.qualified)
            yield Fault(own.path, own.line, "split-class", name, f"{name} is defined in {', '.join(sources)}")


def long_function(tree):
    for one in tree.declarations:
        lines = one.end - one.line + 1
        if one.kind == "function" and lines > FUNCTION_LINES_MAX:
            name = shown(one.qualified)
            yield Fault(one.path, one.line, "long-function", name, f"{name} has {lines} lines, over {FUNCTION_LINES_MAX}")


def line_count(source):
    return source.text.count("\n")


def long_source(tree):
    for source in tree.checked:
        if source.path.endswith(".cc") and line_count(source) > SOURCE_LINES_MAX:
            yield Fault(source.path, 1, "long-source", source.path, f"{line_count(source)} lines, over {SOURCE_LINES_MAX}")


def long_header(tree):
    for source in tree.code:
        if source.path.endswith(".h") and line_count(source) > HEADER_LINES_MAX:
            yield Fault(source.path, 1, "long-header", source.path, f"{line_count(source)} lines, over {HEADER_LINES_MAX}")


def is_constant(member, lines):
    """Whether the declaration that ends with the member's name, on this line or begun on the one before, is constexpr."""
    before = lines[member.line - 2] if member.line > 1 else ""
    begins_before = not re.search(r"[;:{}]\s*$", before)
    return bool(re.search(r"\bconstexpr\b", (before if begins_before else "") + " " + lines[member.line - 1]))


def large_class(tree):
    lines = {source.path: source.code.split("\n") for source in tree.checked}
    for one in classes_of(tree):
        own = one.declaration
        functions = len(one.functions)
        members = sum(not is_constant(member, lines[member.path]) for member in one.members)
        name = shown(own.qualified)
        if functions > CLASS_FUNCTIONS_MAX or members > CLASS_MEMBERS_MAX:
            yield Fault(own.path, own.line, "large-class", name,
                        f"{name} has {functions} member functions (at most {CLASS_FUNCTIONS_MAX}) and {members} data members "
                        f"(at most {CLASS_MEMBERS_MAX})")


def old_word(tree):
    for source in (*tree.checked, *tree.protocols, *tree.scripts, *tree.documents):
        for word in tree.words:
            if word.right_below and source.path.startswith(word.right_below):
                continue
            subject = f"{source.path}:{word.text}"
            if word.pattern.search(source.path):
                yield Fault(source.path, 1, "old-word", subject, f"the file's name has '{word.text}'; instead: {word.instead}")
            if not word.pattern.search(source.text):
                continue
            for number, line in enumerate(source.lines, 1):
                if word.pattern.search(line):
                    yield Fault(source.path, number, "old-word", subject, f"'{word.text}'; instead: {word.instead}")


def comment_beginning(tree):
    for source in tree.checked:
        before = None
        for comment in source.comments:
            continues = (before is not None and comment.stands_alone and before.line == comment.line - 1
                         and before.column == comment.column)
            before = comment
            if not continues and re.match(r"//+[<!]?\s*Of\b", comment.text):
                yield Fault(source.path, comment.line, "comment-beginning", source.path, "the comment begins with 'Of'")


def is_called_from_outside(declaration):
    name = declaration.name
    return (name in CALLED_FROM_OUTSIDE or name.startswith(("~", "operator"))
            or name == declaration.scope.rpartition("::")[2])


def uncalled_function(tree):
    groups = collections.defaultdict(list)  # qualified name -> its declarations and definitions
    for one in tree.declarations:
        if one.kind in ("function", "prototype") and not is_called_from_outside(one):
            groups[one.qualified].append(one)
    uses = uses_beside_declarations(tree, groups)
    documents = None
    for group in groups.values():
        name = group[0].name
        definitions = [one for one in group if one.kind == "function"]
        if uses[name] or not definitions or any({"override", "final"} & one.properties for one in group):
            continue
        if any(one.path.startswith("include/ramcore/") for one in group):
            documents = documents or set(IDENTIFIER.findall("\n".join(source.text for source in tree.documents)))
            if name in documents:
                continue
        where = definitions[0]
        full_name = shown(where.qualified)
        yield Fault(where.path, where.line, "uncalled-function", full_name, f"nothing calls {full_name}")


def uses_beside_declarations(tree, groups):
    """How often each name stands in the code, its declarations and definitions not counted."""
    uses = collections.Counter()
    for source in tree.code:
        uses.update(IDENTIFIER.findall(source.code))
    lines = {source.path: source.code.split("\n") for source in tree.checked}
    declared = collections.Counter((one.path, one.line, one.name) for group in groups.values() for one in group)
    for (path, line, name), count in declared.items():
        uses[name] -= min(count, IDENTIFIER.findall(lines[path][line - 1]).count(name))
    return uses


RULES = {
    "split-class": split_class,
    "long-function": long_function,
    "long-source": long_source,
    "long-header": long_header,
    "large-class": large_class,
    "old-word": old_word,
    "comment-beginning": comment_beginning,
    "uncalled-function": uncalled_function,
}


def find_faults(tree):
    """The faults of each rule, in the order of files and lines."""
    return {rule: sorted(find(tree)) for rule, find in RULES.items()}
