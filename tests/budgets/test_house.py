"""The plan of the house: files of a folder, who imports whom, one class for a name, and nothing written twice."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from budgets.source import ROOT, SOURCE, nodes, tree

PATHS = sorted(SOURCE.rglob("*.py"))
MODULES = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in PATHS}

MOST_FILES = 12
"""Files of one folder, `__init__.py` not counted."""
MORE_FILES = {"server": 13, "server/define": 13, "protocol": 20, "types": 17, "auth/client": 15, "cli/verbs": 20}
FIRST_EDITION_RATIO = 2.07
"""Lines of code, as a multiple of `tools/lines_baseline.json`; lowered when code goes."""
LONGEST_REPEAT = 6
REPEATS = 3
"""Pairs of places that share a run of six equal lines, such as a contract and its engines; lowered when one goes."""
NAMED_TUPLE = {"_replace", "_fields", "_make"}
"""Public attributes of named tuples that look private."""
PRIVATE_READS = 45
"""Reads of a private attribute that only another file of the package defines; lowered when one goes."""
LONGEST_TEST_FILE = 800
PUBLIC_SUB_ROOMS = {"server/middleware"}
"""The sub-rooms that are lazy packages with public names of their own."""
ALWAYS_TWINNED = ("types", "protocol", "schema", "runtime")
"""The rooms in which every file has a test file of its own."""
WITHOUT_TWIN = 96
"""Files of the other rooms that only scenarios test; lowered when one gets a test file of its own."""
TESTS_OF_SEVERAL_FILES = {
    "auth/client/test_construction.py": "what every authorization refuses when it is made",
    "client/test_branching.py": "schemas of servers that branch too often",
    "inspector/test_page.py": "the page of the inspector, which is no Python",
    "test_dependencies.py": "the packages that dragoman needs",
    "testing/test_stores.py": "check_store, by engines that break its promises",
    "test_lines.py": "tools/lines.py",
    "test_lives.py": "the tables of states of the machines",
    "types/test_every_struct.py": "what is true of all wire types",
    "types/test_package.py": "the names of the package",
}

LOOKS_UP = {
    "__init__.py": "the public names of every room",
    "client/session.py": "the version of the package, which a client sends",
    "telemetry/recorder.py": "the version of the package, which spans name",
    "cli/command.py": "the verbs, each loaded when it is used",
}
"""The files, besides the lazy packages, that find a module by a name in data, which the import linter cannot see."""

LOOKS_ABOVE = {
    "server/server.py": {
        "dragoman.forward.proxy.configured",
        "dragoman.forward.mount.mounts",
        "dragoman.forward.mount.renaming",
    },
}
"""The files that find a module of a room above their own by `look_up`, and the modules."""


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def loaded_at_import(within: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports that run when the module is loaded."""
    found: list[ast.Import | ast.ImportFrom] = []
    for node in ast.iter_child_nodes(within):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif is_for_type_checkers(node):
            found += [one for part in node.orelse for one in loaded_at_import(part)]
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found += loaded_at_import(node)
    return found


def modules_of(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Return the modules of the package that an import loads, without the packages around them."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names if alias.name in MODULES}
    names = {f"{node.module}.{alias.name}" for alias in node.names}
    return {name if name in MODULES else str(node.module) for name in names} & MODULES.keys()


def place(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("folder", sorted({path.parent for path in PATHS}), ids=lambda folder: place(folder))
def test_a_folder_has_about_a_dozen_files(folder):
    files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= MORE_FILES.get(place(folder), MOST_FILES)


def test_the_packages_of_sub_rooms_are_empty():
    inits = [path for path in PATHS if path.name == "__init__.py" and len(path.relative_to(SOURCE).parts) > 2]
    inits = [path for path in inits if place(path.parent) not in PUBLIC_SUB_ROOMS]
    assert inits
    assert [place(path) for path in inits if path.read_text(encoding="utf-8")] == []


def test_no_module_needs_itself_to_be_loaded():
    graph = {
        name: set().union(*(modules_of(node) for node in loaded_at_import(tree(path))))
        for name, path in MODULES.items()
    }
    assert sum(map(len, graph.values())) > len(graph)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_private_name_is_imported_from_another_file():
    private = [
        f"{place(path)}: {alias.name}"
        for path in PATHS
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("dragoman")
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert private == []


def test_a_class_name_stands_for_one_class_or_for_a_wire_type_and_what_authors_and_clients_have_of_it():
    places = defaultdict(list)
    for path in PATHS:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(place(path))
    assert len(places) > 300
    twice = {
        name: files
        for name, files in places.items()
        if len([file for file in files if not file.startswith("types/")]) > 1 or len(files) > 2
    }
    assert twice == {}


def test_every_look_up_of_a_module_by_its_name_is_known():
    found = {
        place(path)
        for path in PATHS
        for node in nodes(path)
        if (isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"import_module", "__import__"})
        or (isinstance(node, ast.Subscript) and ast.unparse(node).startswith("sys.modules['dragoman"))
    }
    assert found - {"runtime/lazy.py"} == LOOKS_UP.keys() - {"__init__.py"}
    lazy = {place(path) for path in PATHS if " = lazy()\n" in path.read_text(encoding="utf-8")}
    assert {Path(file).name for file in lazy - {"runtime/lazy.py"}} == {"__init__.py"}


def test_every_look_up_of_a_room_above_is_known():
    found = defaultdict(set)
    for path in PATHS:
        for node in nodes(path):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "look_up":
                found[place(path)].add(ast.literal_eval(node.args[0]))
    assert found == LOOKS_ABOVE


def private_names(path: Path) -> set[str]:
    """Return the private names that a file defines, as functions, variables or attributes."""
    names = {node.name for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in nodes(path):
        for target in getattr(node, "targets", [node.target] if hasattr(node, "target") else []):
            names |= {getattr(part, "attr", getattr(part, "id", "")) for part in ast.walk(target)}
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def test_hardly_any_private_attribute_is_read_in_another_file():
    names = {path: private_names(path) for path in PATHS}
    every = set().union(*names.values()) - NAMED_TUPLE
    found = [
        f"{place(path)}: {ast.unparse(node)}"
        for path in PATHS
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in every - names[path]
        if ast.unparse(node.value) not in {"self", "cls", "super()"}
    ]
    assert len(found) <= PRIVATE_READS, "\n".join(found)


def test_no_test_file_is_long():
    lengths = {path: path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "tests").rglob("*.py")}
    lengths = {path: length for path, length in lengths.items() if "node_modules" not in path.parts}
    assert len(lengths) > 300
    assert {str(path): length for path, length in lengths.items() if length >= LONGEST_TEST_FILE} == {}


def test_a_unit_test_is_about_one_file_and_every_other_file_has_scenarios():
    twins = {path.relative_to(ROOT / "tests/unit") for path in (ROOT / "tests/unit").rglob("test_*.py")}
    files = {path.relative_to(SOURCE) for path in PATHS if path.name != "__init__.py"}
    unknown = {
        str(twin)
        for twin in twins
        if not any((twin.parent / path.name).stem in twin.stem for path in files if path.parent == twin.parent)
    }
    assert unknown == TESTS_OF_SEVERAL_FILES.keys()
    without = sorted(str(path) for path in files if path.with_name(f"test_{path.name}") not in twins)
    assert [path for path in without if path.startswith(ALWAYS_TWINNED)] == []
    assert len(without) <= WITHOUT_TWIN, "\n".join(without)


def test_there_is_no_more_code_than_was_agreed():
    counted = subprocess.run(
        [sys.executable, ROOT / "tools/lines.py", "--json"], capture_output=True, check=True, timeout=60
    )
    before = json.loads((ROOT / "tools/lines_baseline.json").read_text(encoding="utf-8"))
    assert sum(json.loads(counted.stdout).values()) <= FIRST_EDITION_RATIO * sum(before.values())


def code(path: Path) -> list[tuple[int, str]]:
    """Return the numbered lines of a file without imports, docstrings, comments and lone punctuation."""
    silent = set()
    for node in nodes(path):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            silent.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    numbered = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    lines = [(number, line.split("  # ")[0].strip()) for number, line in numbered if number not in silent]
    return [(number, line) for number, line in lines if re.search(r"\w", line) and not line.startswith("#")]


def test_hardly_anything_is_written_twice():
    runs = defaultdict(list)
    for path in PATHS:
        lines = code(path)
        for start in range(len(lines) - LONGEST_REPEAT + 1):
            run = tuple(line for _, line in lines[start : start + LONGEST_REPEAT])
            runs[run].append(f"{place(path)}:{lines[start][0]}")
    pairs = Counter(tuple(spot.partition(":")[0] for spot in spots[:2]) for spots in runs.values() if len(spots) > 1)
    assert len(pairs) <= REPEATS, "\n".join(sorted(" ~ ".join(pair) for pair in pairs))
